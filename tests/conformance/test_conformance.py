"""What each backend does and does not, shown on both alike; docs/backends.md has the same table.

A behaviour is a function that tries it and returns whether it is there; one that is listed as missing is tried as
well. What must never be missing is asserted inside.
"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from backends import BACKENDS, harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402
from oracle import INTAKE, PARKED, WORK  # noqa: E402

TABLE = harness.ROOT / "docs/backends.md"
BRIEFLY = 2  # seconds in which nothing may come


def _bodies(worker, count):
    """The bodies of the next jobs, each finished."""
    out = []
    for _ in range(count):
        job = worker.take()
        assert job is not None, f"a job is missing after {out}"
        out.append(job.body)
        job.finish()
    return out


def bodies_and_text_headers_arrive_unchanged(backend):
    with backend() as b:
        body, headers = bytes(range(256)) * 40, {"job_type": "t", "name": "smørrebrød", "empty": ""}
        b.intake.publish(body, headers=headers)
        job = b.worker().take()
        return (job.body, job.headers) == (body, headers)


def _briefly(condition):
    """Whether it becomes true within a while in which it would."""
    end = time.monotonic() + BRIEFLY
    while time.monotonic() < end and not condition():
        time.sleep(0.05)
    return condition()


def _teach(b):
    """Three kinds of work whose durations are far apart."""
    for label, ms in (("slow", 900), ("medium", 60), ("fast", 1.5)):
        b.intake.report(label, ms)
    b.learned(120)


def _order_of_three(b):
    """In which order three messages are served that came as slow, medium, fast."""
    _teach(b)
    for label in ("slow", "medium", "fast"):
        b.intake.publish(label.encode(), label)
    b.settle_down(3)
    return _bodies(b.worker(), 3)


def shorter_work_goes_first(backend):
    with backend() as b:
        return _order_of_three(b) == [b"fast", b"medium", b"slow"]


def shadow_mode_keeps_the_order_of_arrival(backend):
    with backend(mode="shadow", intake__channels=1) as b:
        return _order_of_three(b) == [b"slow", b"medium", b"fast"]


def equal_work_is_served_in_the_order_of_arrival(backend):
    # RabbitMQ delivers to several channels at once, and neighbours may change places on the way.
    with backend(intake__channels=1) as b:
        for number in range(30):
            b.intake.publish(b"%d" % number, "t")
        b.settle_down(30)
        return _bodies(b.worker(), 30) == [b"%d" % number for number in range(30)]


def durations_are_learned_without_reports(backend):
    with backend() as b:
        worker = b.worker()
        for _ in range(10):
            b.intake.publish(b"", "t")
        for _ in range(10):
            worker.take().finish(12.5)
        return _briefly(lambda: b.daemon.status()["predictor"]["learned"] > 0)


def a_failed_job_comes_again(backend):
    with backend() as b:
        b.intake.publish(b"x")
        worker = b.worker()
        worker.take().fail()
        return worker.take().body == b"x"


def the_job_of_a_worker_that_is_gone_comes_again(backend):
    with backend() as b:
        b.intake.publish(b"x")
        first = b.worker()
        equal(first.take().body, b"x")
        first.vanish()
        return b.worker().take().body == b"x"


def the_job_of_a_worker_that_says_nothing_comes_again(backend):
    settings = {"broker__lease": "300ms"} if backend.name == "harbinger" else {}
    with backend(**settings) as b:
        b.intake.publish(b"x")
        silent = b.worker()
        equal(silent.take().body, b"x")
        return b.worker().take(BRIEFLY) is not None


def a_job_that_fails_three_times_is_parked_with_the_reason(backend):
    with backend() as b:
        b.intake.publish(b"bad", message_id="m")
        worker = b.worker()
        for _ in range(3):
            worker.take().fail()
        if worker.take(BRIEFLY) is not None:
            return False
        wait_until(lambda: b.intake.ready(PARKED) == 1, what="the parked message")
        _, properties, body = harness.get_all(b.intake.channel, PARKED)[0]
        equal((body, properties.message_id), (b"bad", "m"))
        reason = properties.headers["x-harbinger-parked-reason"]
        assert "the handler failed" in reason, reason
        return True


def work_that_has_waited_long_is_promoted(backend):
    settings = {"broker__aging_threshold": "200ms", "broker__aging_interval": "20ms"}
    with backend(**(settings if backend.name == "harbinger" else {})) as b:
        _teach(b)
        b.intake.publish(b"slow", "slow")
        b.settle_down(1)
        time.sleep(1)  # two thresholds and a half: it has climbed two levels
        b.intake.publish(b"fast", "fast")
        b.settle_down(2)
        return _bodies(b.worker(), 2) == [b"slow", b"fast"]


def levels_share_worker_time_by_weights(backend):
    settings = {"broker__weights": "[8, 3, 1]"} if backend.name == "harbinger" else {}
    with backend(**settings) as b:
        for label, ms in (("slow", 40), ("medium", 20), ("fast", 10)):
            b.intake.report(label, ms)
        b.learned(120)
        for label in ("slow", "medium", "fast"):
            for _ in range(20):
                b.intake.publish(label.encode(), label)
        b.settle_down(60)
        first = _bodies(b.worker(), 20)
        return b"slow" in first and first.count(b"fast") > first.count(b"medium") > first.count(b"slow")


def a_repeated_settlement_does_no_harm(backend):
    with backend() as b:
        b.intake.publish(b"x")
        job = b.worker().take()
        job.finish()
        return job.settle_again()


def what_has_expired_is_not_handled(backend):
    with backend() as b:
        b.intake.publish(b"short", expiration="300")
        b.intake.publish(b"long")
        b.settle_down(2)
        wait_until(lambda: b.waiting() == 1, what="the first one to expire")
        return _bodies(b.worker(), 1) == [b"long"]


def the_daemons_sudden_death_loses_nothing(backend):
    with backend() as b:
        for number in range(20):
            b.intake.publish(b"%d" % number)
        b.settle_down(20)
        worker = b.worker()
        equal(worker.take() is not None, True)
        b.daemon.kill()
        worker.vanish()
        b.daemon.start()
        b.settle_down(20)
        return set(_bodies(b.worker(), 20)) == {b"%d" % number for number in range(20)}


def a_lost_connection_loses_nothing(backend):
    with backend() as b:
        for number in range(20):
            b.intake.publish(b"%d" % number)
        b.settle_down(20)
        harness.ctl("close_all_connections", "test")
        b.intake = type(b.intake)()
        seen, worker = set(), b.worker()
        while len(seen) < 20:
            job = worker.take()
            assert job is not None, f"only {len(seen)} of 20 came"
            seen.add(job.body)
            job.finish()
        return True


def what_is_not_held_waits_in_the_intake(backend):
    settings = {"intake__channels": 1, "intake__window": 10} if backend.name == "harbinger" else {"intake__window": 10}
    with backend(**settings) as b:
        for number in range(50):
            b.intake.publish(b"%d" % number)
        _briefly(lambda: b.intake.ready(INTAKE) == 0)
        return b.intake.ready(INTAKE) == 40


def a_job_leaves_the_intake_only_when_it_is_done(backend):
    with backend() as b:
        b.intake.publish(b"x")
        worker = b.worker()
        equal(worker.take().body, b"x")
        _briefly(lambda: b.daemon.status()["intake"]["held"] == 0)
        b.daemon.kill()  # what it had not acknowledged is ready again
        return _briefly(lambda: b.intake.ready(INTAKE) == 1)


BEHAVIOURS = [item for name, item in list(globals().items())
              if callable(item) and getattr(item, "__module__", "") == "__main__" and name[0] != "_"]


def _documented():
    """{words of a behaviour: {backend: whether it has it}} from the table."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    header = rows[0][1:]
    return {row[0]: {name: cell == "yes" for name, cell in zip(header, row[1:])} for row in rows[2:]}


def _words(behaviour):
    return behaviour.__name__.replace("_", " ")


def _test(behaviour, backend, expected):
    def test():
        equal(behaviour(backend), expected, f"{backend.name}: {_words(behaviour)}")
    test.__module__ = "__main__"
    return test


def _table_lists_what_is_tried():
    equal(sorted(_documented()), sorted(_words(b) for b in BEHAVIOURS), f"rows of {TABLE.name}")


def _all():
    documented = _documented()
    tests = {"the_table_lists_what_is_tried": _table_lists_what_is_tried}
    for behaviour in BEHAVIOURS:
        for backend in BACKENDS:
            expected = documented.get(_words(behaviour), {}).get(backend.name)
            name = behaviour.__name__ if expected else f"not_{behaviour.__name__}"
            tests[f"{backend.name}_{name}"] = _test(behaviour, backend, expected)
    for test in tests.values():
        test.__module__ = "__main__"
    return tests


if __name__ == "__main__":
    harness.main(_all())
