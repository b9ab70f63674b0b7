"""The daemon dies, at random and at chosen moments. (Faults 1 to 4)

A killed round counts only if at least 100 messages were held, and at least one comes again.
"""
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
from harness import Daemon, equal, wait_until  # noqa: E402
from oracle import INTAKE, WORK, queue_ready  # noqa: E402
from proxy import Proxy  # noqa: E402

WINDOW = 500
ROUNDS = int(os.environ.get("HARBINGER_FAULT_COUNT", "50" if harness.LONG else "4"))


def _start_and_fill(count, **options):
    """Declares the topology by a daemon that is stopped again, and fills the intake."""
    harness.delete_topology()
    with Daemon(**options) as daemon:
        equal(daemon.stop(), 0, "exit code")
    return oracle.publish(count)


def _stable_ready(queue):
    last = [-1]

    def same():
        before, last[0] = last[0], queue_ready(queue)
        return before == last[0]
    wait_until(same, what=f"a quiet {queue}")
    return last[0]


def _kill(daemon):
    """SIGKILL; returns how many messages it held. The stop before it freezes the counts only."""
    daemon.signal(signal.SIGSTOP)
    before = _stable_ready(INTAKE)
    daemon.kill()
    with harness.connect() as connection:
        channel = connection.channel()
        wait_until(lambda: channel.queue_declare(INTAKE, passive=True).method.consumer_count == 0,
                   what="the intake without a consumer")
        held = _stable_ready(INTAKE) - before
        method = channel.basic_get(INTAKE)[0]
        if method is None:
            return held, False
        channel.basic_nack(method.delivery_tag, requeue=True)
        return held, method.redelivered


def sigkill_at_random_loses_nothing():
    rng = random.Random(int(os.environ.get("HARBINGER_FAULT_SEED", "1")))
    producers, counted, killed = [_start_and_fill(3000)], 0, 0
    with Daemon(wait=False) as daemon:
        while counted < ROUNDS:
            assert killed < 4 * ROUNDS + 8, f"only {counted} of {killed} rounds counted"
            daemon.wait_log("event=ready")
            start = queue_ready(INTAKE)
            wait_until(lambda: queue_ready(INTAKE) < start, what="the first deliveries")
            time.sleep(rng.uniform(0, 0.15))
            held, redelivered = _kill(daemon)
            killed += 1
            counted += held >= 100 and redelivered
            if queue_ready(INTAKE) < 2000:
                producers.append(oracle.publish(3000, sum(len(p.digests) for p in producers)))
            daemon.start(wait=False)
        daemon.wait_log("event=ready")
        wait_until(lambda: daemon.status()["intake"]["redelivered"] > 0, what="redelivered messages")
        oracle.settle(daemon, producers, at_most_duplicated=WINDOW * killed)
        print(f"# {counted} of {killed} kills counted", flush=True)


def _link_that_sends_most(proxy):
    """The publish link among the daemon's two, told by the bytes towards the broker."""
    def both():
        rows = proxy.connections()
        return len(rows) == 2 and max(up for _, up, _ in rows.values()) > 20000 and rows
    rows = wait_until(both, what=lambda: f"two links under load: {proxy.connections()}")
    publish = max(rows, key=lambda number: rows[number][1])
    return publish, next(number for number in rows if number != publish)


def sigkill_between_publish_and_confirm_duplicates_at_most_a_window():
    producer = _start_and_fill(6000)
    with Proxy(harness.amqp_port()) as proxy, Daemon(uri=proxy.uri()) as daemon:
        publish, _ = _link_that_sends_most(proxy)
        proxy(f"hold {publish} down")
        _stable_ready(WORK)
        held, redelivered = _kill(daemon)
        assert held >= 100 and redelivered, f"does not count: {held} held, redelivered: {redelivered}"
        daemon.start()
        oracle.settle(daemon, [producer], at_least_duplicated=1, at_most_duplicated=2 * WINDOW)


def sigkill_between_confirm_and_ack_duplicates_at_most_a_window():
    producer = _start_and_fill(6000)
    with Proxy(harness.amqp_port()) as proxy, Daemon(uri=proxy.uri()) as daemon:
        _, consume = _link_that_sends_most(proxy)
        proxy(f"drop {consume} up")  # acks vanish on the way
        _stable_ready(WORK)
        held, redelivered = _kill(daemon)
        assert held >= 100 and redelivered, f"does not count: {held} held, redelivered: {redelivered}"
        daemon.start()
        oracle.settle(daemon, [producer], at_least_duplicated=100, at_most_duplicated=WINDOW)


def sigterm_under_load_settles_what_it_holds_and_exits_0():
    producer = _start_and_fill(6000)
    with Daemon() as daemon:
        wait_until(lambda: queue_ready(WORK) > 200, what="a flow")
        assert queue_ready(INTAKE) > 0, "no load left"
        equal(daemon.stop(limit=30), 0, "exit code")
        daemon.start()
        oracle.settle(daemon, [producer], at_most_duplicated=0)


def a_second_sigterm_exits_at_once_and_loses_nothing():
    producer = _start_and_fill(6000)
    with Proxy(harness.amqp_port()) as proxy, Daemon(uri=proxy.uri()) as daemon:
        publish, _ = _link_that_sends_most(proxy)
        proxy(f"hold {publish} down")  # no confirms: the first SIGTERM has to wait
        daemon.signal(signal.SIGTERM)
        daemon.wait_log("event=stopping")
        time.sleep(0.3)
        equal(daemon.process.poll(), None, "exit code while confirms are missing")
        started = time.monotonic()
        daemon.signal(signal.SIGTERM)
        assert daemon.process.wait(5) != 0, "it did not finish its work"
        assert time.monotonic() - started < 1, "it took its time"
        daemon.start()
        oracle.settle(daemon, [producer], at_most_duplicated=WINDOW)


harness.main(globals())
