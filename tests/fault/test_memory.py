"""The daemon's memory is bounded: it stays flat once its tables are full."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import pika  # noqa: E402
from harness import Daemon, equal, wait_until  # noqa: E402
from load import Load  # noqa: E402
from oracle import INTAKE, REPORTS, WORK, queue_ready  # noqa: E402

COUNT = 500000 if harness.LONG else 50000
IDS = 1000000 if harness.LONG else 50000
KEYS, MAX_KEYS = 20000, 16384
WARM_UP = 20000
ALLOWED_KIB = 2048
SAMPLES = 100


def _fill_tables(daemon):
    """As many different ids and keys as the daemon can remember, and more."""
    with harness.connect() as connection:
        channel = connection.channel()
        for start in range(0, IDS, 10000):
            events = (f'{{"id":"f-{n + 1:x}-1-x","key":"-/k{n % KEYS}","duration_ms":{1 + n % 500}}}'
                      for n in range(start, start + 10000))
            channel.basic_publish(REPORTS, "", f"[{','.join(events)}]".encode(), pika.BasicProperties())

    def full():
        reports = daemon.status()["reports"]
        return reports["remembered_ids"] == IDS and queue_ready(REPORTS) == 0
    wait_until(full, 120, lambda: f"{IDS} remembered: {daemon.status()['reports']}")
    equal(daemon.status()["predictor"]["keys"], MAX_KEYS, "keys")


def _acked(daemon):
    return daemon.metrics()['harbinger_intake_settled_total{how="ack"}']


def _pass_through(daemon, count, each=lambda: None):
    """Sends `count` messages all the way to a worker that reports; calls `each` a number of times meanwhile."""
    limit = 60 + count / 500
    start = done = _acked(daemon)
    with Load("consume", WORK, count, report=1) as worker, Load("publish", INTAKE, count, keys=KEYS) as producer:
        while done < start + count:
            wanted = min(done + count / SAMPLES, start + count)
            wait_until(lambda: _acked(daemon) >= wanted or daemon.process.poll() is not None, limit,
                       lambda: f"{wanted} acked: {daemon.status()}")
            equal(daemon.process.poll(), None, "exit code")
            done = _acked(daemon)
            each()
        equal(producer.result(limit)["published"], count, "published")
        equal(worker.result(limit)["received"], count, "received by the worker")


def memory_is_flat_when_the_tables_are_full():
    harness.delete_topology()
    with Daemon({"reports.remembered_ids": IDS, "predictor.max_keys": MAX_KEYS}) as daemon:
        at_start = daemon.memory_kib()
        _fill_tables(daemon)
        _pass_through(daemon, WARM_UP)
        samples, started = [daemon.memory_kib()], time.monotonic()
        _pass_through(daemon, COUNT, lambda: samples.append(daemon.memory_kib()))
        wait_until(lambda: queue_ready(REPORTS) == 0, 30, "all reports read")
        samples.append(daemon.memory_kib())
        rate = COUNT / (time.monotonic() - started)
        low, high = min(samples) - samples[0], max(samples) - samples[0]
        print(f"# {COUNT} messages at {rate:.0f}/s; {at_start} KiB at the start, {samples[0]} KiB with full tables; "
              f"then {low:+d} to {high:+d} KiB in {len(samples)} samples", flush=True)
        equal(daemon.status()["predictor"]["keys"], MAX_KEYS, "keys")
        assert -ALLOWED_KIB <= low and high <= ALLOWED_KIB, f"not flat: {samples}"


harness.main(globals())
