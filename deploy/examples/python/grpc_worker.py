#!/usr/bin/python3
"""A worker of a Harbinger with the linked broker, over gRPC (Python, grpcio).

    grpc_worker.py [HOST:PORT]

The stubs come from src/rpc/harbinger.proto, into a folder on PYTHONPATH:

    python3 -m grpc_tools.protoc -I src/rpc --python_out=. --grpc_python_out=. harbinger.proto
"""
import json
import signal
import sys
import threading
import time

import grpc
import harbinger_pb2 as pb
import harbinger_pb2_grpc as pb_grpc

PASSES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def handle(payload):
    """The work itself: yours goes here. These jobs carry the milliseconds to sleep."""
    time.sleep(json.loads(payload)["ms"] / 1000)


def settle(call, request):
    """Repeats what may not have arrived: the broker knows a settlement that it has seen."""
    for pause in (0.1, 0.2, None):
        try:
            return call(request, timeout=5)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                return print("lease lost:", request.message_id, file=sys.stderr)  # it is another attempt's now
            if error.code() not in PASSES or pause is None:
                raise
            time.sleep(pause)


def work(stub, me, job):
    started, reason = time.monotonic(), None
    try:
        handle(job.payload)
    except Exception as error:  # pylint: disable=broad-except
        reason = repr(error)
    ms = 1000 * (time.monotonic() - started)
    same = {"consumer_id": me, "message_id": job.message_id, "attempt_token": job.attempt_token,
            "duration_ms": ms, "processing_time_ms": int(ms)}
    if reason is None:
        settle(stub.Ack, pb.AckRequest(**same))
    else:
        settle(stub.Nack, pb.NackRequest(reason=reason, **same))


def main(address="127.0.0.1:50051"):
    stop, pull = threading.Event(), None

    def on_term(*_):  # the current job is finished and settled, a waiting pull is not
        stop.set()
        if pull is not None:
            pull.cancel()

    signal.signal(signal.SIGTERM, on_term)
    stub, me = pb_grpc.BrokerStub(grpc.insecure_channel(address)), None
    while not stop.is_set():
        try:
            me = me or stub.RegisterConsumer(pb.RegisterConsumerRequest(), timeout=5).consumer_id
            pull = stub.Pull.future(pb.PullRequest(consumer_id=me, timeout_ms=1000), timeout=1.5)
            answer = pull.result()
        except grpc.FutureCancelledError:
            continue
        except grpc.RpcError as error:
            if error.code() not in PASSES:
                raise
            me = None  # a server that starts again knows nobody
            stop.wait(0.2)
            continue
        finally:
            pull = None
        if not answer.timed_out:
            work(stub, me, answer.message)


if __name__ == "__main__":
    main(*sys.argv[1:])
