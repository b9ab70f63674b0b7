"""The daemon while allocations fail: it degrades, or ends with a message and everything still at the intake. (Fault 29)"""
import http.client
import os
import pathlib
import struct
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
import workers as fleet  # noqa: E402
from harness import Daemon, equal, wait_until  # noqa: E402
from oracle import INTAKE, PARKED, queue_ready  # noqa: E402
from workers import Workers, judge, wait_handled  # noqa: E402

FAILER = harness.BUILD / "tests/lib/libfewmalloc.so"
ONE_IN = (1000, 100, 20, 5)
ROUNDS = int(os.environ.get("HARBINGER_FAULT_COUNT", "20" if harness.LONG else "1"))
CHANNELS, EACH = 4, 100
LOAD = 8000


class _Failer:
    """Makes one in n of a process's allocations fail (0: none); the process gets `env`."""

    def __init__(self):
        if not FAILER.exists():
            raise harness.Skip("a sanitizer has its own allocator")
        self.switch = tempfile.NamedTemporaryFile()
        self.switch.write(struct.pack("=II", 0, 0))
        self.switch.flush()
        self.env = {"LD_PRELOAD": str(FAILER), "FEWMALLOC": self.switch.name}

    def fail(self, one_in):
        os.pwrite(self.switch.fileno(), struct.pack("=I", one_in), 0)

    def failed(self):
        return struct.unpack("=I", os.pread(self.switch.fileno(), 4, 4))[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.switch.close()


def _revive(daemon):
    """Whether it had ended; that must have been by itself, not by a signal, and with words."""
    status = daemon.process.poll()
    if status is None:
        return False
    assert status > 0, f"it was ended by signal {-status}:\n{daemon.log()[-3000:]}"
    assert "level=error" in daemon.log(), daemon.log()[-3000:]
    daemon.start()
    return True


def _ask_all(daemon):
    """Whatever it answers, or does not."""
    for path in ("/status", "/metrics"):
        try:
            daemon.http(path)
        except (OSError, http.client.HTTPException):
            pass


def _one_round(daemon, failer, one_in, first):
    """Failures under load; the producer."""
    producer = oracle.Producer(LOAD, first)
    wait_until(lambda: len(producer.confirmed) > 100, what="a flow")
    before, began = failer.failed(), time.monotonic()

    def enough():
        _ask_all(daemon)
        return daemon.process.poll() is not None or failer.failed() >= before + 10 and time.monotonic() > began + 2
    failer.fail(one_in)
    try:
        wait_until(enough, 30, lambda: f"failed allocations, not {failer.failed() - before}")
    finally:
        failer.fail(0)
    ended = _revive(daemon)
    print(f"# one in {one_in}: {failer.failed() - before} failed{', it ended' if ended else ''}", flush=True)
    return producer.stop().done()


def failed_allocations_lose_nothing():
    harness.delete_topology()
    settings = {"backend": "harbinger", "rpc.listen": fleet.free_address(), "intake.channels": CHANNELS,
                "intake.window": EACH, "broker.lease": "2s", "broker.max_attempts": 1000}
    with _Failer() as failer, Daemon(settings, env=failer.env) as daemon, \
            Workers(settings["rpc.listen"], count=4, handle_ms=1, credit=4) as workers:
        producers = []
        for one_in in ONE_IN * ROUNDS:
            producers.append(_one_round(daemon, failer, one_in, LOAD * len(producers)))
            workers.revive()  # one that was told of too little memory has ended
            handled = len(workers.lines())
            wait_until(lambda h=handled: len(workers.lines()) > h or queue_ready(INTAKE) == 0, 30, "work afterwards")
        wait_handled(daemon, 120)
        workers.stop()
        judge(producers, workers, at_most_duplicated=CHANNELS * EACH * len(producers))
        equal(daemon.stop(), 0, "exit code")
    equal(queue_ready(PARKED), 0, "parked")


harness.main(globals())
