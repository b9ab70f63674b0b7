"""Floods and garbage on the reports queue, and its loss. (Faults 25 and 26)"""
import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
import pika  # noqa: E402
from harness import Daemon, ctl, equal, wait_until  # noqa: E402
from oracle import REPORTS, queue_ready  # noqa: E402

BAD = {
    "malformed": [b"{", b"[1]", b"null", b'{"id":"1-1-0-x","key":"-/k","outcome":"ok"}',
                  b'{"id":"1-1-0-x","key":"-/k","duration_ms":null,"outcome":"ok"}',
                  b'{"id":"1-1-0-x","key":"-/k","duration_ms":NaN,"outcome":"ok"}',
                  b'{"id":"1-1-0-x","key":"-/k","duration_ms":"5","outcome":"ok"}', b"\xff\xfe", b"[" * 5000],
    "negative": [b'{"id":"1-1-0-x","key":"-/k","duration_ms":-1,"outcome":"ok"}'],
    "too_long": [b'{"id":"1-2-0-x","key":"-/k","duration_ms":1e308,"outcome":"ok"}'],
    "no_key": [b"", b'{"id":"1-1-0-x","duration_ms":1,"outcome":"ok"}'],
}


LISTS = 5


def _fresh(settings=None):
    harness.delete_topology()
    return Daemon(settings)


def _results(daemon):
    """{result: how many reports}"""
    return {name.split('"')[1]: int(n) for name, n in daemon.metrics().items()
            if name.startswith("harbinger_reports_total")}


def _report(channel, body, **properties):
    channel.basic_publish(REPORTS, "", body, pika.BasicProperties(**properties))


def _event(key, duration=5, number=1):
    """`number` makes the id, in the form that the daemon gives: instance-sequence-level-estimate."""
    return {"id": f"f-{number + 1:x}-1-x", "key": key, "duration_ms": duration, "outcome": "ok"}


def _wait_read(daemon, limit=30):
    wait_until(lambda: queue_ready(REPORTS) == 0, limit, lambda: f"reports read: {daemon.status()['reports']}")


def each_bad_report_is_counted_by_reason_and_teaches_nothing():
    with _fresh() as daemon, harness.connect() as connection:
        channel = connection.channel()
        before = _results(daemon)
        for bodies in BAD.values():
            for body in bodies:
                _report(channel, body)
        total = sum(len(bodies) for bodies in BAD.values())
        wait_until(lambda: sum(_results(daemon).values()) - sum(before.values()) >= total,
                   what=lambda: f"{total} counted: {_results(daemon)}")
        after = _results(daemon)
        print(f"# {after}", flush=True)
        for reason, bodies in BAD.items():
            if reason != "malformed":
                equal(after[reason] - before[reason], len(bodies), reason)
        equal(daemon.status()["predictor"]["learned"], 0, "learned")
        _wait_read(daemon)


def a_replayed_id_teaches_once_and_a_forged_key_is_bounded():
    with _fresh({"predictor.max_keys": "1024"}) as daemon, harness.connect() as connection:
        channel = connection.channel()
        for _ in range(50):
            _report(channel, json.dumps(_event("-/k", number=7)).encode())
        for start in range(0, 20000, 1000):
            events = [_event(f"-/forged{n}", number=1000 + n) for n in range(start, start + 1000)]
            _report(channel, json.dumps(events).encode())
        wait_until(lambda: _results(daemon)["duplicate"] >= 49, what=lambda: f"49 duplicates: {_results(daemon)}")
        _wait_read(daemon)
        status = daemon.status()["predictor"]
        assert status["keys"] <= 1024, status
        equal(_results(daemon)["duplicate"], 49, "duplicates")


def _publish_flood(channel, singles):
    """Half garbage, half forged; lists; a body over the daemon's limit. Returns {reason: how many} to be counted."""
    for n in range(singles // 2):
        _report(channel, b"{garbage")
        _report(channel, json.dumps(_event(f"-/k{n % 5000}", number=n)).encode())
    for n in range(LISTS):  # the ids of each list are those of the one before, but for one
        events = [_event("-/many", number=10 ** 7 + n + i) for i in range(10000)]
        _report(channel, json.dumps(events).encode())
    _report(channel, b"[" + b" " * (9 << 20) + b"]")
    for n in range(1000):
        _report(channel, json.dumps(_event("-/forged") | {"id": f"forged-{n}"}).encode())
    learned = singles // 2 + 10000 + LISTS - 1
    return {"learned": learned, "duplicate": LISTS * 10000 - (10000 + LISTS - 1), "malformed": singles // 2 + 1 + 1000}


def messages_flow_while_a_flood_of_reports_is_queued():
    singles = 98000  # the queue is bounded: over 100,000 messages would push out the oldest
    with _fresh() as daemon, harness.connect() as connection:
        memory = daemon.memory_kib()
        daemon.signal(signal.SIGSTOP)  # let the flood pile up
        counts = _publish_flood(connection.channel(), singles)
        wait_until(lambda: queue_ready(REPORTS) > singles - 1000, 60, "a flood")
        producer = oracle.publish(1000)
        daemon.signal(signal.SIGCONT)
        wait_until(lambda: queue_ready(oracle.WORK) == 1000, 30, lambda: f"forwarded: {daemon.status()}")
        queued = queue_ready(REPORTS)
        print(f"# {queued} reports were still queued", flush=True)
        peak = [daemon.memory_kib()]

        def read():
            peak[0] = max(peak[0], daemon.memory_kib())
            return sum(_results(daemon).values()) >= sum(counts.values())
        wait_until(read, 120, lambda: f"{counts} counted: {_results(daemon)}")
        oracle.settle(daemon, [producer])
        print(f"# {memory} KiB before, at most {peak[0]} KiB meanwhile", flush=True)
        equal({reason: n for reason, n in _results(daemon).items() if n}, counts, "reports by reason")
        assert queued > 0, "no flood any more when the messages were through"
        if harness.PLAIN:
            assert peak[0] < memory + 80 * 1024, "memory grows with the flood"


def loss_of_the_reports_queue_stops_learning_only():
    with _fresh() as daemon:
        first = oracle.publish(200)
        oracle.wait_forwarded(daemon)
        ctl("delete_queue", REPORTS)
        daemon.wait_log("event=consumer.down queue=harbinger.reports")
        second = oracle.publish(500, 200)
        oracle.settle(daemon, [first, second])
        equal(daemon.process.poll(), None, "exit code")


harness.main(globals())
