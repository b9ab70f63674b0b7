"""The gRPC face from Python: stubs made from the .proto files, a server of its own, a small client."""
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile

import harness

try:
    import grpc
except ImportError:  # the tests that need it skip aloud
    grpc = None

SERVER = pathlib.Path(os.environ.get("HARBINGER_RPC_SERVER", harness.BUILD / "tests/lib/rpc_server"))


def _stubs():
    """Modules harbinger_pb2 and harbinger_pb2_grpc, health_pb2 and health_pb2_grpc."""
    if grpc is None:
        return None, None, None, None
    folder = tempfile.mkdtemp(prefix="harbinger-pb.")
    protos = harness.ROOT / "src/rpc"
    done = subprocess.run(
        ["/usr/bin/python3", "-m", "grpc_tools.protoc", f"-I{protos}", f"--python_out={folder}",
         f"--grpc_python_out={folder}", "harbinger.proto", "health.proto"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    sys.path.insert(0, folder)
    return tuple(importlib.import_module(name) for name in
                 ("harbinger_pb2", "harbinger_pb2_grpc", "health_pb2", "health_pb2_grpc"))


pb, pb_grpc, health, health_grpc = _stubs()


def need():
    if grpc is None:
        raise harness.Skip("python3-grpcio is not installed")
    if not SERVER.exists():
        raise harness.Skip(f"{SERVER.name} is not built")


class Server:
    """rpc_server on a port of its own; `options` are its NAME=VALUE arguments."""

    def __init__(self, **options):
        need()
        arguments = [str(SERVER), *(f"{name}={value}" for name, value in options.items())]
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("Ready port="), f"rpc_server said {line!r}"
        self.port = int(line.split("=")[1])
        self.address = f"127.0.0.1:{self.port}"

    def stop(self):
        self.process.terminate()
        return self.process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Client:
    """One channel with a producer and a consumer."""

    def __init__(self, address, credentials=None, options=(), metadata=None):
        options = [("grpc.use_local_subchannel_pool", 1), *options]
        self.channel = (grpc.secure_channel(address, credentials, options) if credentials
                        else grpc.insecure_channel(address, options))
        self.stub = pb_grpc.BrokerStub(self.channel)
        self.metadata = metadata
        self.producer = self.consumer = ""

    def register(self):
        self.producer = self.stub.RegisterProducer(
            pb.RegisterProducerRequest(), timeout=5, metadata=self.metadata).producer_id
        self.consumer = self.stub.RegisterConsumer(
            pb.RegisterConsumerRequest(), timeout=5, metadata=self.metadata).consumer_id
        return self

    def submit(self, payload=b"", headers=None, **fields):
        request = pb.SubmitRequest(producer_id=self.producer, payload=payload, headers=headers or {}, **fields)
        return self.stub.Submit(request, timeout=5, metadata=self.metadata).message_id

    def pull(self, timeout_ms=1000, consumer=None, timeout=10):
        """A PulledMessage, or None when time was over."""
        answer = self.stub.Pull(pb.PullRequest(consumer_id=consumer or self.consumer, timeout_ms=timeout_ms),
                                timeout=timeout, metadata=self.metadata)
        return None if answer.timed_out else answer.message

    def ack(self, message, ms=1.0, consumer=None, **fields):
        request = pb.AckRequest(consumer_id=consumer or self.consumer, message_id=message.message_id,
                                attempt_token=message.attempt_token, duration_ms=ms)
        for name, value in fields.items():
            setattr(request, name, value)
        return self.stub.Ack(request, timeout=5, metadata=self.metadata)

    def nack(self, message, reason="", consumer=None):
        return self.stub.Nack(pb.NackRequest(consumer_id=consumer or self.consumer, message_id=message.message_id,
                                             attempt_token=message.attempt_token, reason=reason),
                              timeout=5, metadata=self.metadata)

    def stats(self):
        return self.stub.Stats(pb.StatsRequest(), timeout=5, metadata=self.metadata)

    def dead(self, limit=100, offset=0):
        return self.stub.InspectDlq(pb.InspectDlqRequest(limit=limit, offset=offset), timeout=5,
                                    metadata=self.metadata)

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def refused(call, *arguments, **named):
    """(status name, words) of a call that must not succeed."""
    try:
        call(*arguments, **named)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    raise AssertionError("the call succeeded")
