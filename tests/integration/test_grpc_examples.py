"""The example producers and workers over gRPC, each producer with each worker, on the real server."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402
import rpc  # noqa: E402

EXAMPLES = harness.ROOT / "deploy/examples"
BUILT = harness.BUILD / "deploy/examples/c"
STUBS = str(pathlib.Path(rpc.pb.__file__).parent) if rpc.pb else ""
KINDS = {"C": lambda name: [str(BUILT / name)],
         "Python": lambda name: ["/usr/bin/python3", str(EXAMPLES / f"python/{name}.py")]}


def _start(kind, name, *arguments):
    return subprocess.Popen([*KINDS[kind](name), *arguments], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": STUBS})


def _status(address):
    done = subprocess.run([str(harness.BUILD / "src/cli/harbinger"), "--connect", address, "status", "--json"],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _work_is_done_and_failures_are_told(producer, worker):
    with rpc.Server(max_attempts=2) as server:
        sent = _start(producer, "grpc_producer", server.address, "sleep", '{"ms": 1.5}', '{"ms": 20}', "nonsense")
        ids, _ = sent.communicate(timeout=20)
        equal((sent.returncode, len(set(ids.split()))), (0, 3))
        process = _start(worker, "grpc_worker", server.address)
        wait_until(lambda: _status(server.address)["dead"] == 1 and _status(server.address)["totals"]["acked"] == 2)
        status = _status(server.address)
        equal((status["waiting"], status["in_flight"], status["totals"]["nacked"], status["totals"]["learned"]), (0, 0, 2, 2))
        process.terminate()
        process.communicate(timeout=10)
        equal(process.returncode, 0)


def a_worker_in_c_with_each_producer():
    for producer in KINDS:
        _work_is_done_and_failures_are_told(producer, "C")


def a_worker_in_python_with_each_producer():
    for producer in KINDS:
        _work_is_done_and_failures_are_told(producer, "Python")


def a_worker_waits_for_its_server():
    for worker in KINDS:
        with rpc.Server() as server:
            address, port = server.address, server.port
        process = _start(worker, "grpc_worker", address)
        with rpc.Server(listen=f"127.0.0.1:{port}") as server:
            equal(_start("C", "grpc_producer", address, "sleep", '{"ms": 1}').wait(20), 0)
            wait_until(lambda: _status(address)["totals"]["acked"] == 1)
            process.terminate()
            process.communicate(timeout=10)
            equal(process.returncode, 0)


if __name__ == "__main__":
    harness.main(globals())
