"""The broker dies, blocks, closes connections or loses queues. (Faults 6, 8, 12 to 17)

A death of the broker counts only if at least 100 messages were held, and at least one came again.
"""
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
import proxy  # noqa: E402
from harness import Daemon, ctl, equal, wait_until  # noqa: E402
from oracle import INTAKE, PARKED, WORK, queue_ready  # noqa: E402

WINDOW = 500
COUNT = int(os.environ.get("HARBINGER_FAULT_COUNT", "3" if harness.LONG else "1"))


def _fresh(settings=None, **options):
    harness.delete_topology()
    return Daemon(settings, **options)


def _by_hand():
    """A daemon that leaves the topology to others, with everything there that it needs."""
    with _fresh():
        pass
    return Daemon({"amqp.topology": "off"})


def _declare_work():
    with harness.connect() as connection:
        connection.channel().queue_declare(WORK, durable=True, arguments={"x-max-priority": 2})


def _work(daemon):
    return daemon.status()["work"]


def _one_death(daemon, producers, end, begin):
    """One end of the broker under load: (held and not acked at that moment, delivered again)."""
    intake = daemon.status()["intake"]
    producers.append(oracle.Producer(100000, sum(len(p.digests) for p in producers)))
    wait_until(lambda: daemon.status()["intake"]["held"] >= 200, 30, "a window with something in it")
    end()
    wait_until(lambda: not daemon.status()["ready"], 30, "a daemon that is not ready")
    begin()
    producers[-1].stop().done(90)
    wait_until(lambda: daemon.status()["ready"], 40, lambda: f"ready again: {daemon.status()}")
    oracle.wait_forwarded(daemon)  # what was held has been given up, and came again
    after = daemon.status()["intake"]
    return after["stale"] - intake["stale"], after["redelivered"] - intake["redelivered"]


def _broker_death_under_load_loses_nothing(end, begin):
    with _fresh() as daemon:
        producers, counted, deaths = [oracle.publish(4000)], 0, 0
        oracle.wait_forwarded(daemon)
        while counted < COUNT:
            assert deaths < 4 * COUNT + 4, f"only {counted} of {deaths} rounds counted"
            held, redelivered = _one_death(daemon, producers, end, begin)
            deaths += 1
            counted += held >= 100 and redelivered > 0
            print(f"# death {deaths}: {held} held, {redelivered} redelivered", flush=True)
        equal(daemon.process.poll(), None, "exit code")
        oracle.settle(daemon, producers, at_most_duplicated=2 * WINDOW * deaths)
        print(f"# {counted} of {deaths} deaths counted", flush=True)


def broker_sigkill_and_restart_lose_nothing():
    _broker_death_under_load_loses_nothing(lambda: harness.rabbit_node("kill"),
                                           lambda: harness.rabbit_node("start"))


def broker_stop_app_and_start_app_lose_nothing():
    _broker_death_under_load_loses_nothing(lambda: ctl("stop_app"), lambda: ctl("start_app"))


def _daemon_connections(daemon):
    """{"consume" or "publish": broker's pid of that connection}"""
    out = {}
    for line in ctl("list_connections", "pid", "client_properties").splitlines():
        for role in ("consume", "publish"):
            if re.search(rf'connection_name[^}}]*{role}', line):
                out[role] = line.split("\t")[0]
    assert len(out) == 2, f"connections: {ctl('list_connections', 'pid', 'client_properties')}"
    return out


def closing_one_link_stops_the_other_and_loses_nothing():
    with _fresh() as daemon:
        producers = []
        for role in ("publish", "consume"):
            before = daemon.status()["links"][role]["losses"]
            pid = _daemon_connections(daemon)[role]
            producers.append(oracle.Producer(15000, sum(len(p.digests) for p in producers)))
            ctl("close_connection", pid, "test")
            wait_until(lambda: daemon.status()["links"][role]["losses"] > before, what=f"a lost {role} link")
            producers[-1].done()
            oracle.wait_forwarded(daemon)
        equal(daemon.process.poll(), None, "exit code")
        oracle.settle(daemon, producers, at_most_duplicated=2 * WINDOW)


def memory_alarm_blocks_publishing_but_not_acks_and_ends():
    with _fresh() as daemon:
        first = oracle.publish(2000)
        oracle.wait_forwarded(daemon)
        second = oracle.publish(3000, 2000)
        memory = daemon.memory_kib()
        ctl("set_vm_memory_high_watermark", "0.00001")
        try:
            third = oracle.Producer(500, 5000)  # blocked as well
            with harness.connect() as connection:  # has never published: it is served
                channel = connection.channel()
                channel.queue_declare("alarm", exclusive=True)
            wait_until(lambda: daemon.status()["links"]["publish"]["blocked"] or queue_ready(INTAKE) == 0,
                       what="a blocked publish link")
            time.sleep(1)
            status = daemon.status()
            assert status["intake"]["held"] <= WINDOW, status
            assert daemon.memory_kib() < memory + 20 * 1024, "grows"
        finally:
            ctl("set_vm_memory_high_watermark", "0.4")
        third.done()
        wait_until(lambda: not daemon.status()["links"]["publish"]["blocked"], what="an unblocked link")
        oracle.settle(daemon, [first, second, third], at_most_duplicated=WINDOW)


def disk_alarm_that_is_on_at_the_start_is_reported_and_waited_for():
    with _fresh() as daemon:
        equal(daemon.stop(), 0, "exit code")
        producer = oracle.publish(1500)
        ctl("set_disk_free_limit", "999GB")
        try:
            daemon.start(wait=False)
            daemon.wait_log("event=publish.blocked")
            wait_until(lambda: daemon.status()["links"]["publish"]["blocked"], what="blocked in the status")
            equal(daemon.http("/livez")[0], 200, "livez")
            assert daemon.status()["intake"]["held"] <= WINDOW, daemon.status()
        finally:
            ctl("set_disk_free_limit", "50MB")
        daemon.wait_log("event=publish.unblocked")
        oracle.settle(daemon, [producer], at_most_duplicated=WINDOW)


def deleted_work_queue_pauses_and_nothing_is_parked_or_acked():
    with _by_hand() as daemon:
        first = oracle.publish(500)
        oracle.wait_forwarded(daemon)
        tally = oracle.Tally().drain()
        ctl("delete_queue", WORK)
        acked = daemon.status()["intake"]["acked"]
        second = oracle.publish(1500, 500)
        wait_until(lambda: _work(daemon)["state"] == "paused", what=lambda: f"paused: {_work(daemon)}")
        returned = _work(daemon)["returned"]
        assert returned > 0, "nothing was returned"
        time.sleep(2.5)  # a few trials
        status = daemon.status()
        equal(status["intake"]["acked"], acked, "acked")
        equal(queue_ready(PARKED), 0, "parked")
        assert status["intake"]["held"] <= WINDOW, status
        assert status["work"]["returned"] < returned + WINDOW, "it does not back off"
        _declare_work()
        wait_until(lambda: _work(daemon)["state"] == "flowing", 40, lambda: f"flowing: {_work(daemon)}")
        oracle.wait_forwarded(daemon)
        oracle.Verdict([first, second], tally.drain()).expect()


def unbound_work_exchange_is_waited_for_and_a_lone_wrong_key_is_parked():
    harness.delete_topology()
    with harness.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("jobs.in", "fanout", durable=True)
        channel.exchange_declare("jobs.out", "direct", durable=True)
        channel.queue_declare(WORK, durable=True, arguments={"x-max-priority": 2})  # as it is bound
        with Daemon({"work.exchange": "jobs.out"}, wait=False) as daemon:
            daemon.wait_log("event=ready")
            channel.queue_bind(INTAKE, "jobs.in")
            channel.queue_bind(WORK, "jobs.out", "good")
            first = oracle.publish(300, exchange="jobs.in", key="good")
            oracle.wait_forwarded(daemon)
            # All are returned: the destination's fault.
            channel.queue_unbind(WORK, "jobs.out", "good")
            second = oracle.publish(300, 300, exchange="jobs.in", key="good")
            wait_until(lambda: _work(daemon)["returned"] >= 600, what=lambda: f"two trials: {_work(daemon)}")
            time.sleep(2)
            assert _work(daemon)["returned"] < 600 + 5 * 300, "it spins"
            equal(daemon.status()["intake"]["held"], 300, "held")
            equal(queue_ready(PARKED), 0, "parked")
            channel.queue_bind(WORK, "jobs.out", "good")
            oracle.wait_forwarded(daemon)
            # One is returned while others get through: its own fault.
            lone = oracle.publish(1, 600, exchange="jobs.in", key="nowhere")

            def parked():
                others.append(oracle.publish(5, 700 + 5 * len(others), exchange="jobs.in", key="good"))
                return queue_ready(PARKED) == 1
            others = []
            wait_until(parked, 60, lambda: f"one parked: {_work(daemon)}")
            oracle.wait_forwarded(daemon)
            tally = oracle.Tally().drain()
            equal(tally.seen[600], 0, "the lone message at work")
            tally.drain(PARKED)
            assert None not in {r for r, n in tally.reasons.items() if n == 1}, tally.reasons
            oracle.Verdict([first, second, lone, *others], tally).expect()
        channel.exchange_delete("jobs.in")
        channel.exchange_delete("jobs.out")


def messages_that_an_alternate_exchange_takes_are_not_lost():
    harness.delete_topology()
    with harness.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("jobs.rest", "fanout", durable=True)
        channel.exchange_declare("jobs.out", "direct", durable=True, arguments={"alternate-exchange": "jobs.rest"})
        channel.exchange_declare("jobs.in", "fanout", durable=True)
        channel.queue_declare("rest", durable=True)
        channel.queue_bind("rest", "jobs.rest")
        channel.queue_declare(WORK, durable=True, arguments={"x-max-priority": 2})
        channel.queue_bind(WORK, "jobs.out", "good")
        with Daemon({"work.exchange": "jobs.out"}) as daemon:
            channel.queue_bind(INTAKE, "jobs.in")
            good = oracle.publish(200, exchange="jobs.in", key="good")
            stray = oracle.publish(200, 200, exchange="jobs.in", key="nowhere")
            oracle.wait_forwarded(daemon)
            equal(_work(daemon)["returned"], 0, "returned")
            equal(queue_ready("rest"), 200, "taken by the alternate exchange")
            oracle.Verdict([good, stray], oracle.Tally().drain().drain("rest")).expect()
        harness.delete_queues("rest", exchanges=["jobs.in", "jobs.out", "jobs.rest"])


def deleted_and_recreated_intake_is_consumed_again():
    with _by_hand() as daemon:
        first = oracle.publish(300)
        oracle.wait_forwarded(daemon)
        ctl("delete_queue", INTAKE)
        daemon.wait_log("event=consumer.down queue=harbinger.intake")
        with harness.connect() as connection:
            connection.channel().queue_declare(INTAKE, durable=True)
        wait_until(lambda: daemon.status()["intake"]["state"] == "consuming", 40,
                   lambda: f"consuming: {daemon.status()['intake']}")
        second = oracle.publish(300, 300)
        oracle.settle(daemon, [first, second])


def deleted_queues_are_made_again_under_declare():
    with _fresh() as daemon:
        for queue in (WORK, PARKED, INTAKE):
            ctl("delete_queue", queue)
        wait_until(lambda: daemon.status()["intake"]["state"] == "consuming", 40,
                   lambda: f"consuming: {daemon.status()['intake']}")
        producer = oracle.publish(300)
        wait_until(lambda: queue_ready(PARKED) == 0, what="a queue for parking")
        oracle.settle(daemon, [producer])


def full_work_queue_that_rejects_is_waited_for_without_spinning():
    with _fresh() as daemon:
        ctl("set_policy", "full", f"^{WORK}$", '{"max-length":100,"overflow":"reject-publish"}',
            "--apply-to", "queues")
        try:
            producer = oracle.publish(600)
            wait_until(lambda: _work(daemon)["state"] == "paused", what=lambda: f"paused: {_work(daemon)}")
            nacked, cpu = _work(daemon)["nacked"], _cpu_s(daemon)
            assert nacked > 0, "nothing was nacked"
            time.sleep(3)
            assert _cpu_s(daemon) - cpu < 0.5, "it spins"
            assert _work(daemon)["nacked"] < nacked + 2 * WINDOW, "it does not back off"
            equal(queue_ready(PARKED), 0, "parked")
        finally:
            ctl("clear_policy", "full")
        oracle.settle(daemon, [producer])


def a_path_slower_than_the_confirm_timeout_gets_through():
    harness.delete_topology()
    with proxy.Proxy(harness.amqp_port()) as slow, Daemon({"amqp.confirm_timeout": "1s"}, uri=slow.uri()) as daemon:
        slow("rate all up 150000")
        with harness.connect() as connection:
            connection.channel().basic_publish("", INTAKE, b"z" * 500000)
        wait_until(lambda: _work(daemon)["confirmed"] == 1, 30, lambda: f"confirmed: {_work(daemon)}")
        assert _work(daemon)["published"] <= 4, f"copies: {_work(daemon)}"


def _cpu_s(daemon):
    fields = pathlib.Path(f"/proc/{daemon.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


harness.main(globals())
