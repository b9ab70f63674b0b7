"""A broker after a script, on Python's own gRPC: it hands out what it is given, notes every call, and fails as told.

It is a foreign implementation of the protocol, so it shows that a client gets on with others than our own server.
"""
import collections
import concurrent.futures
import pathlib
import subprocess
import threading
import time

import grpc

import harness
from rpc import health as health_pb, pb

UNARY = ["RegisterProducer", "Submit", "RegisterConsumer", "Pull", "Ack", "Nack", "InspectDlq", "ExtendLease", "Stats",
         "RedriveDlq", "PurgeDlq", "Drain"]
Call = collections.namedtuple("Call", "name request time metadata")


class Script:
    """`messages`: what is handed out next. `fail[name]`: for each next call of that name a status, a text that is
    "hang" (it is never answered), or None. `calls`: what came. `answers[name]`: instead of the usual answer."""

    def __init__(self, port=0, credentials=None, **fail):
        self.messages, self.calls, self.answers = collections.deque(), [], {}
        self.fail = collections.defaultdict(list, fail)
        self.work_results, self.credit, self.cancelled, self.half_closed = [], [], 0, 0
        self.submits, self.answer_submits, self.break_after = [], True, None
        self.work_ends, self.stopping = [], threading.Event()
        self.counters = collections.Counter()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), options=[
            ("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])
        handlers = {name: grpc.unary_unary_rpc_method_handler(
            lambda r, c, n=name: self._unary(n, r, c), getattr(pb, name + "Request").FromString,
            getattr(pb, name + "Response").SerializeToString) for name in UNARY}
        handlers["SubmitStream"] = grpc.stream_stream_rpc_method_handler(
            self._submit_stream, pb.SubmitRequest.FromString, pb.SubmitResults.SerializeToString)
        handlers["Work"] = grpc.stream_stream_rpc_method_handler(
            self._work, pb.WorkRequest.FromString, pb.WorkResponse.SerializeToString)
        check = grpc.unary_unary_rpc_method_handler(
            lambda r, c: health_pb.HealthCheckResponse(status=1), health_pb.HealthCheckRequest.FromString,
            health_pb.HealthCheckResponse.SerializeToString)
        self.server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler("harbinger_rpc.Broker", handlers),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})))
        where = f"127.0.0.1:{port}"
        if credentials is None:
            self.port = self.server.add_insecure_port(where)
        else:
            self.port = self.server.add_secure_port(where, credentials)
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.stopping.set()
        self.server.stop(0.05).wait()

    def named(self, name):
        return [c for c in self.calls if c.name == name]

    def add(self, *payloads, **headers):
        for payload in payloads:
            number = self.counters["message"]
            self.counters["message"] += 1
            self.messages.append(pb.PulledMessage(message_id=f"m{number}", payload=payload, headers=headers,
                                                  attempt_token=f"t-{number}", lease_duration_ms=30000))

    def _unary(self, name, request, context):
        self.calls.append(Call(name, request, time.monotonic(), dict(context.invocation_metadata())))
        told = self.fail[name].pop(0) if self.fail[name] else None
        if told == "hang":
            self._until_cancelled(context, 10)
        elif told is not None:
            context.abort(told, f"as the script says: 100% {name} ☂")
        if name in self.answers:
            return self.answers[name]
        return getattr(self, "_" + name.lower(), lambda r, c: getattr(pb, name + "Response")())(request, context)

    def _until_cancelled(self, context, limit):
        gone = threading.Event()
        if context.add_callback(gone.set):
            gone.wait(limit)
        self.cancelled += 1

    def _registerproducer(self, _request, _context):
        self.counters["producer"] += 1
        return pb.RegisterProducerResponse(producer_id=f"producer-{self.counters['producer'] - 1}")

    def _registerconsumer(self, _request, _context):
        self.counters["consumer"] += 1
        return pb.RegisterConsumerResponse(consumer_id=f"consumer-{self.counters['consumer'] - 1}")

    def _submit(self, _request, _context):
        self.counters["submit"] += 1
        return pb.SubmitResponse(message_id=f"s{self.counters['submit'] - 1}")

    def _extendlease(self, _request, _context):
        return pb.ExtendLeaseResponse(lease_duration_ms=45000)

    def _pull(self, request, context):
        end = time.monotonic() + request.timeout_ms / 1000
        while not self.messages and context.is_active() and time.monotonic() < end and not self.stopping.is_set():
            time.sleep(0.01)
        if not context.is_active():
            self.cancelled += 1
            return pb.PullResponse(timed_out=True)
        if not self.messages:
            return pb.PullResponse(timed_out=True)
        return pb.PullResponse(message=self.messages.popleft())

    def _submit_stream(self, requests, context):
        for request in requests:
            self.submits.append(request)
            if self.break_after is not None and len(self.submits) >= self.break_after:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the script breaks the stream")
            while not self.answer_submits and context.is_active():
                time.sleep(0.01)
            number = len(self.submits) - 1
            if number % 3 == 2:
                result = pb.SubmitResult(status=8, error="full")
            else:
                result = pb.SubmitResult(message_id=f"s{number}")
            yield pb.SubmitResults(results=[result])

    def _work(self, requests, context):
        state = {"credit": 0, "began": False, "ended": False}

        def listen():
            try:
                for request in requests:
                    self.calls.append(Call("Work", request, time.monotonic(), dict(context.invocation_metadata())))
                    state["credit"] += request.credit
                    state["began"] = True
                state["ended"] = True
                self.half_closed += 1
            except grpc.RpcError:
                pass

        threading.Thread(target=listen, daemon=True).start()
        while context.is_active() and not state["ended"] and not self.stopping.is_set():
            if self.work_ends and state["began"]:  # else the call would not have been noted
                context.abort(self.work_ends.pop(0), "the script ends the stream")
            if self.work_results:
                yield pb.WorkResponse(results=[self.work_results.pop(0)])
            batch = []
            while self.messages and state["credit"] > 0:
                state["credit"] -= 1
                batch.append(self.messages.popleft())
            if batch:
                yield pb.WorkResponse(deliveries=batch)
            time.sleep(0.005)


class Client:
    """The C client as a process; its lines by key (`lines("message")`) and `values`."""

    def __init__(self, command, address, **keys):
        program = [str(pathlib.Path(harness.BUILD) / "tests/lib/rpc_client"), command, address]
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(program + [f"{k}={v}" for k, v in keys.items()], stdout=subprocess.PIPE, text=True)
        self.out = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.out.append(line.rstrip("\n"))

    def lines(self, word):
        return [line[len(word) + 1:] for line in self.out if line.startswith(word + " ")]

    def value(self, key):
        return next(line[len(key) + 1:] for line in self.out if line.startswith(key + "="))

    def end(self, code=0, limit=10):
        got = self.process.wait(limit)
        self.reader.join()
        harness.equal(got, code, f"exit code ({self.out[-3:]})")
        return self

    def stop(self):
        self.process.terminate()
        return self.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
