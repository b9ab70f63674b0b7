"""The harbinger backend: it holds messages for long, and everything around it dies. (Faults 1 to 6, 25, 28, 29)

A killed round counts only if at least 100 messages were held, and at least one comes again. A duplicate is a message
that a worker has begun with more than once.
"""
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
import pika  # noqa: E402
import workers as fleet  # noqa: E402
from harness import Daemon, equal, wait_until  # noqa: E402
from oracle import INTAKE, PARKED, REPORTS, queue_ready  # noqa: E402
from proxy import Proxy  # noqa: E402
from workers import Workers, judge, wait_handled  # noqa: E402

CHANNELS, EACH = 4, 100
WINDOW = CHANNELS * EACH
ROUNDS = int(os.environ.get("HARBINGER_FAULT_COUNT", "50" if harness.LONG else "3"))
DEATHS = int(os.environ.get("HARBINGER_FAULT_COUNT", "3" if harness.LONG else "1"))


def _daemon(settings=None, fresh=True, **options):
    if fresh:
        harness.delete_topology()
    return Daemon({"backend": "harbinger", "rpc.listen": fleet.free_address(), "intake.channels": CHANNELS,
                   "intake.window": EACH, "intake.idle_after": "0", "broker.lease": "5s", **(settings or {})}, **options)


def _address(daemon):
    return daemon.settings["rpc.listen"]


def _start_and_fill(daemon, count, first=0):
    wait_until(lambda: daemon.status()["intake"].get("state") == "consuming", what="an intake that is consumed")
    return oracle.publish(count, first)


def _intake_after_death():
    """(ready messages, whether the first was delivered before), once RabbitMQ has noticed the death."""
    with harness.connect() as connection:
        channel = connection.channel()
        wait_until(lambda: channel.queue_declare(INTAKE, passive=True).method.consumer_count == 0,
                   what="the intake without a consumer")
        last = [-1]

        def same():
            before, last[0] = last[0], harness.ready_count(channel, INTAKE)
            return before == last[0]
        wait_until(same, what="a quiet intake")
        method = channel.basic_get(INTAKE)[0]
        if method is None:
            return last[0], False
        channel.basic_nack(method.delivery_tag, requeue=True)
        return last[0], method.redelivered


def _kill(daemon):
    """SIGKILL; how many it held, and whether one comes again."""
    daemon.signal(signal.SIGSTOP)
    time.sleep(0.1)
    before = queue_ready(INTAKE)
    daemon.kill()
    after, redelivered = _intake_after_death()
    return after - before, redelivered


# --- the daemon dies ----------------------------------------------------------------------------

def sigkill_while_held_loses_nothing():
    rng = random.Random(int(os.environ.get("HARBINGER_FAULT_SEED", "1")))
    counted = killed = 0
    with _daemon() as daemon, Workers(_address(daemon), handle_ms=1, credit=8) as workers:
        producers = [_start_and_fill(daemon, 3000)]
        while counted < ROUNDS:
            assert killed < 4 * ROUNDS + 8, f"only {counted} of {killed} rounds counted"
            wait_until(lambda: daemon.status()["broker"]["acked"] > 20, what="a flow")
            time.sleep(rng.uniform(0, 0.15))
            held, redelivered = _kill(daemon)
            killed += 1
            counted += held >= 100 and redelivered
            if queue_ready(INTAKE) < 2000:
                producers.append(oracle.publish(3000, sum(len(p.digests) for p in producers)))
            daemon.start()
        wait_handled(daemon, 90)
        workers.stop()
        judge(producers, workers, at_most_duplicated=WINDOW * killed)
        print(f"# {counted} of {killed} kills counted", flush=True)


def _consume_link(proxy):
    """The one of the daemon's links over which more comes down."""
    rows = wait_until(lambda: len(proxy.connections()) == 2 and proxy.connections(), what="two links")
    return max(rows, key=lambda number: rows[number][2])


def sigkill_between_the_workers_ack_and_the_intakes_duplicates_at_most_a_window():
    with Proxy(harness.amqp_port()) as proxy, _daemon(uri=proxy.uri()) as daemon:
        producer = _start_and_fill(daemon, 1500)
        wait_until(lambda: daemon.status()["intake"]["held"] == WINDOW, what="a full window")
        proxy(f"drop {_consume_link(proxy)} up")  # acks vanish on the way
        with Workers(_address(daemon), handle_ms=1) as workers:
            wait_until(lambda: daemon.status()["intake"]["acked"] >= WINDOW, what="a window of acks")
            held, redelivered = _kill(daemon)
            assert held >= 100 and redelivered, f"does not count: {held} held, redelivered: {redelivered}"
            daemon.settings["amqp.uri"] = harness.AMQP
            daemon.start()
            wait_handled(daemon)
            workers.stop()
            judge([producer], workers, at_least_duplicated=100, at_most_duplicated=WINDOW + 2)


def sigterm_settles_what_is_at_workers_and_gives_back_the_rest():
    with _daemon() as daemon, Workers(_address(daemon), handle_ms=5, credit=8) as workers:
        producer = _start_and_fill(daemon, 2000)
        wait_until(lambda: daemon.status()["broker"]["acked"] > 50, what="a flow")
        assert daemon.status()["intake"]["held"] >= 100, "no load left"
        equal(daemon.stop(limit=30), 0, "exit code")
        assert "stopping.late" not in daemon.log(), daemon.log()[-2000:]
        ready, redelivered = _intake_after_death()
        assert ready > 100 and redelivered, f"{ready} ready"
        daemon.start()
        wait_handled(daemon)
        workers.stop()
        # What was delivered to a stream and not begun with is given back, not run twice.
        judge([producer], workers, at_most_duplicated=2 * 8)


def a_second_sigterm_exits_at_once_and_loses_nothing():
    with _daemon({"broker.lease": "60s"}) as daemon:
        producer = _start_and_fill(daemon, 500)
        with Workers(_address(daemon), count=1, handle_ms=20000) as stuck:
            wait_until(lambda: daemon.status()["broker"]["in_flight"] == 1, what="a worker at work")
            daemon.signal(signal.SIGTERM)
            daemon.wait_log("event=stopping")
            time.sleep(0.3)
            equal(daemon.process.poll(), None, "exit code while a worker has something")
            daemon.signal(signal.SIGTERM)
            assert daemon.process.wait(5) != 0, "it did not finish its work"
            equal(len(stuck.lines()), 1, "begun with")
        daemon.start()
        with Workers(_address(daemon), credit=8) as workers:
            wait_handled(daemon)
            workers.stop()
            judge([producer], workers)


def a_worker_that_does_not_finish_does_not_hold_up_the_stop():
    with _daemon({"broker.lease": "60s", "shutdown.timeout": "1s"}) as daemon:
        producer = _start_and_fill(daemon, 500)
        with Workers(_address(daemon), count=1, handle_ms=20000, credit=4) as stuck:
            wait_until(lambda: len(stuck.lines()) == 1, what="a worker at work")
            equal(daemon.stop(limit=5), 0, "exit code")
            assert "stopping.late" in daemon.log(), daemon.log()[-2000:]
        daemon.start()
        with Workers(_address(daemon), credit=8) as workers:
            wait_handled(daemon)
            workers.stop()
            judge([producer], workers)


def sigstop_beyond_the_heartbeat_rebuilds_the_links_and_begins_nothing_anew():
    with _daemon({"amqp.heartbeat": "1s", "broker.lease": "60s"}) as daemon:
        producer = _start_and_fill(daemon, 1000)
        wait_until(lambda: daemon.status()["intake"]["held"] == WINDOW, what="a full window")
        daemon.signal(signal.SIGSTOP)
        _intake_after_death()
        daemon.signal(signal.SIGCONT)
        wait_until(lambda: daemon.status()["intake"]["recognised"] >= WINDOW, 40,
                   lambda: f"recognised: {daemon.status()['intake']}")
        wait_until(lambda: daemon.status()["ready"], 20, lambda: f"ready: {daemon.status()}")
        equal(daemon.status()["broker"]["submitted"], WINDOW, "submitted")
        with Workers(_address(daemon), credit=8) as workers:
            wait_handled(daemon)
            workers.stop()
            judge([producer], workers)
        assert "406" not in daemon.log() and "unknown delivery tag" not in daemon.log(), "an ack with an old tag"


# --- the broker dies ----------------------------------------------------------------------------

def broker_sigkill_and_restart_lose_nothing():
    counted = deaths = 0
    with _daemon() as daemon, Workers(_address(daemon), handle_ms=2, credit=4) as workers:
        producers = [_start_and_fill(daemon, 1500)]
        while counted < DEATHS:
            assert deaths < 4 * DEATHS + 4, f"only {counted} of {deaths} deaths counted"
            before = daemon.status()["intake"]
            producers.append(oracle.Producer(100000, sum(len(p.digests) for p in producers)))
            wait_until(lambda: daemon.status()["intake"]["held"] >= 100, 30, "something held")
            harness.rabbit_node("kill")
            wait_until(lambda: not daemon.status()["ready"], 30, "a daemon that is not ready")
            unbacked = daemon.status()["intake"]["unbacked"]
            harness.rabbit_node("start")
            producers[-1].stop().done(90)
            wait_until(lambda: daemon.status()["ready"], 40, lambda: f"ready again: {daemon.status()}")
            wait_handled(daemon, 120)
            after = daemon.status()["intake"]
            deaths += 1
            counted += unbacked >= 100 and after["redelivered"] > before["redelivered"]
            print(f"# death {deaths}: {unbacked} unbacked, {after['recognised'] - before['recognised']} recognised, "
                  f"{after['withdrawn'] - before['withdrawn']} withdrawn", flush=True)
        equal(daemon.process.poll(), None, "exit code")
        workers.stop()
        judge(producers, workers, at_most_duplicated=2 * WINDOW * deaths)


def a_lost_channel_begins_nothing_anew_and_settles_what_was_done():
    with Proxy(harness.amqp_port()) as proxy, _daemon(uri=proxy.uri()) as daemon:
        producer = _start_and_fill(daemon, 1000)
        wait_until(lambda: daemon.status()["intake"]["held"] == WINDOW, what="a full window")
        proxy("refuse on")
        proxy(f"close {_consume_link(proxy)} rst")
        wait_until(lambda: daemon.status()["intake"]["unbacked"] == WINDOW, what="all unbacked")
        with Workers(_address(daemon), handle_ms=1) as workers:
            wait_until(lambda: len(workers.lines()) >= 100, what="work during the outage")
            proxy("refuse off")
            wait_handled(daemon)
            workers.stop()
            judge([producer], workers)
            assert daemon.status()["intake"]["recognised"] >= WINDOW, daemon.status()["intake"]


def a_delivery_timeout_is_met_by_renewal():
    harness.delete_topology()
    harness.ctl("eval", "application:set_env(rabbit, consumer_timeout, 9000).")
    harness.ctl("eval", "application:set_env(rabbit, channel_tick_interval, 1000).")
    try:
        with _daemon({"intake.delivery_timeout": "9s"}) as daemon:
            producer = _start_and_fill(daemon, 600)
            wait_until(lambda: daemon.status()["intake"]["held"] == WINDOW, what="a full window")
            equal(daemon.status()["intake"]["channels"], CHANNELS, "channels")
            equal(daemon.status()["intake"]["channels_up"], CHANNELS, "channels that consume")
            equal(daemon.metrics()["harbinger_intake_channels_up"], CHANNELS, "the same as a metric")
            wait_until(lambda: daemon.status()["intake"]["renewed"] >= 4 * WINDOW, 40,
                       lambda: f"renewed: {daemon.status()['intake']}")
            equal(daemon.status()["broker"]["submitted"], WINDOW, "submitted")
            assert "consumer.down" not in daemon.log(), daemon.log()[-2000:]
            with Workers(_address(daemon), credit=8) as workers:
                wait_handled(daemon)
                workers.stop()
                judge([producer], workers)
    finally:
        harness.ctl("eval", "application:set_env(rabbit, consumer_timeout, 1800000).")
        harness.ctl("eval", "application:set_env(rabbit, channel_tick_interval, 60000).")


# --- workers, reports ---------------------------------------------------------------------------

def killed_workers_and_failures_lose_nothing_and_the_hopeless_are_parked():
    with _daemon({"broker.lease": "2s", "broker.max_attempts": 4}) as daemon:
        producer = _start_and_fill(daemon, 400)
        address = _address(daemon)
        begun = []
        for _ in range(2):
            with Workers(address, handle_ms=5, credit=4, fail="7") as workers:
                wait_until(lambda: len(workers.lines()) > 40, what="work")
                workers.kill()
                begun.append(workers.seen())
        with Workers(address, credit=4, fail="7") as workers:
            wait_handled(daemon)
            workers.stop()
            hopeless = {n for n in producer.confirmed if n % 10 == 7}
            with harness.connect() as connection:
                parked = {oracle.number_of(body): p.headers["x-harbinger-parked-reason"]
                          for _, p, body in harness.get_all(connection.channel(), PARKED)}
            assert hopeless <= set(parked), f"not parked: {sorted(hopeless - set(parked))[:10]}"
            assert len(parked) <= len(hopeless) + 2 * 2 * 4, f"{len(parked)} parked"
            assert all(reason.startswith("max_retries: attempt 4 of 4 failed") for reason in parked.values()), parked
            elsewhere = set(parked).union(*begun)
            judge([producer], workers, at_most_duplicated=4 * len(hopeless) + 400, elsewhere=elsewhere)
            equal(daemon.status()["broker"]["acked"] + len(parked), 400, "acked by a worker, or parked")
            equal(daemon.status()["broker"]["parking"]["stuck"], 0, "stuck")


def garbage_among_the_reports_stops_no_worker():
    bad = [b"{", b"[1]", b"null", b'{"id":"1-1-0-x","key":"-/k","duration_ms":-1,"outcome":"ok"}',
           b'{"id":"1-2-0-x","key":"-/k","duration_ms":1e308,"outcome":"ok"}', b"\xff\xfe", b"[" * 5000]
    with _daemon() as daemon, harness.connect() as connection:
        channel = connection.channel()
        daemon.signal(signal.SIGSTOP)  # let it pile up
        for number in range(20000):
            channel.basic_publish(REPORTS, "", bad[number % len(bad)])
        channel.basic_publish(REPORTS, "", json.dumps([{"id": f"f-{n + 1:x}-1-x", "key": "-/k", "duration_ms": 5,
                                                        "outcome": "ok"} for n in range(10000)]).encode())
        daemon.signal(signal.SIGCONT)
        producer = oracle.publish(1000)
        with Workers(_address(daemon), credit=8) as workers:
            wait_handled(daemon)
            workers.stop()
            judge([producer], workers)
        wait_until(lambda: queue_ready(REPORTS) == 0, 60, "all reports read")

        def counted():
            reports = daemon.status()["reports"]
            return sum(reports[name] for name in ("malformed", "negative", "too_long", "learned")) == 30000
        wait_until(counted, 30, lambda: f"all counted: {daemon.status()['reports']}")
        equal(daemon.status()["predictor"]["learned"], 11000, "learned: by reports and by workers")


# --- clocks and resources -----------------------------------------------------------------------

def a_suspended_machine_ends_leases_and_ages_are_sane():
    with _daemon({"broker.lease": "1s", "broker.max_attempts": 10}) as daemon:
        producer = _start_and_fill(daemon, 300)
        with Workers(_address(daemon), handle_ms=20, credit=4) as workers:
            wait_until(lambda: daemon.status()["broker"]["acked"] > 10, what="a flow")
            daemon.signal(signal.SIGSTOP)
            time.sleep(2)
            daemon.signal(signal.SIGCONT)
            wait_until(lambda: daemon.status()["broker"]["leases_expired"] > 0, what="leases that have run out")
            broker = daemon.status()["broker"]
            assert all(0 <= level["oldest_wait_s"] < 60 for level in broker["levels"]), broker
            wait_handled(daemon)
            workers.stop()
            judge([producer], workers, at_most_duplicated=2 * 4 + 2)
        equal(queue_ready(PARKED), 0, "parked")


def _fake_wall_clock(folder):
    """The environment of a process whose wall clock follows a file, and that file."""
    found = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        raise harness.Skip("libfaketime is not installed")
    offset = pathlib.Path(folder, "offset")
    offset.write_text("+0", encoding="ascii")
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {"LD_PRELOAD": str(found[0]), "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1", "ASAN_OPTIONS": asan.lstrip(":")}, offset


def a_wall_clock_that_jumps_changes_nothing():
    with tempfile.TemporaryDirectory() as folder:
        env, offset = _fake_wall_clock(folder)
        with _daemon({"broker.lease": "20s"}, env=env) as daemon, \
                Workers(_address(daemon), handle_ms=3, credit=4) as workers:
            producers = [_start_and_fill(daemon, 300)]
            for step, jump in enumerate(("+1h", "-1h", "+400d", "-2d"), 1):
                offset.write_text(jump, encoding="ascii")
                now = subprocess.run(["date", "+%s"], env={**os.environ, **env}, stdout=subprocess.PIPE, text=True,
                                     check=True).stdout
                assert abs(int(now) - time.time()) > 3000, "the wall clock did not jump"
                producers.append(oracle.publish(100, 200 + 100 * step))
                wait_until(lambda s=step: daemon.status()["broker"]["acked"] > 50 * s, what="a flow")
                broker = daemon.status()["broker"]
                assert all(0 <= level["oldest_wait_s"] < 60 for level in broker["levels"]), broker
            wait_handled(daemon)
            workers.stop()
            judge(producers, workers)
            broker = daemon.status()["broker"]
            equal((broker["leases_expired"], broker["retried"]), (0, 0), "leases expired, retries")
        equal(queue_ready(PARKED), 0, "parked")


def few_descriptors_and_a_crowd_of_workers_stop_nobody():
    with _daemon() as daemon:
        producer = _start_and_fill(daemon, 500)
        pid = daemon.process.pid
        used = len(os.listdir(f"/proc/{pid}/fd"))
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 3, limits[1]))
        with Workers(_address(daemon), count=8, handle_ms=1) as workers:
            wait_until(lambda: len(workers.lines()) >= 500, 60, lambda: f"handled: {len(workers.lines())}")
            wait_until(lambda: queue_ready(INTAKE) == 0, what="an empty intake")
            judge([producer], workers, at_most_duplicated=8)
        equal(daemon.process.poll(), None, "exit code")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        wait_handled(daemon)


harness.main(globals())
