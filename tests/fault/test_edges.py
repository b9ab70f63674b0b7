"""What only a rare moment shows: large messages, slow answers, one message that is refused, a stop in the middle."""
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import pika  # noqa: E402
import proxy  # noqa: E402
from harness import Daemon, ctl, equal, wait_until  # noqa: E402
from oracle import INTAKE, PARKED, WORK, queue_ready  # noqa: E402

REPORTS = "harbinger.reports"


def _publish(channel, count, body=b"", routing_key=INTAKE, exchange="", **properties):
    for number in range(count):
        channel.basic_publish(exchange, routing_key, b"%06d" % number + body,
                              pika.BasicProperties(delivery_mode=2, **properties))


def _drained(daemon):
    intake = daemon.status()["intake"]
    return intake["held"] == 0 and queue_ready(INTAKE) == 0


def large_messages_do_not_use_up_a_quorum_intakes_delivery_limit():
    """Refused deliveries count against the limit; past it a quorum queue drops the message."""
    count = 700
    harness.delete_topology()
    with harness.connect() as connection, proxy.Proxy(harness.amqp_port()) as between:
        channel = connection.channel()
        channel.queue_declare(INTAKE, durable=True,
                              arguments={"x-queue-type": "quorum", "x-delivery-limit": 20})
        channel.confirm_delivery()
        _publish(channel, count, b"q" * 4000)
        between("delay all both 10")
        with Daemon({"intake.window_bytes": "64KiB"}, uri=between.uri()) as daemon:
            wait_until(lambda: _drained(daemon), 90, lambda: f"an empty intake: {daemon.status()['intake']}")
            wait_until(lambda: queue_ready(WORK) == count, 20, lambda: f"all in the work queue: {queue_ready(WORK)}")
            got = harness.get_all(channel, WORK)
            worst = max((p.headers or {}).get("x-delivery-count", 0) for _, p, _ in got)
            print(f"# deliveries of {count} messages: {daemon.status()['intake']['received']}, at most {worst} again")
            assert worst < 15, f"a message was delivered {worst} times again"


def slow_answer_about_the_topology_does_not_stop_the_start():
    harness.delete_topology()
    with proxy.Proxy(harness.amqp_port()) as between:
        between("delay all down 600")  # so that no answer has come before they are held
        with Daemon(uri=between.uri(), wait=False) as daemon:
            daemon.wait_log("event=link.up link=consume")
            between("hold all down")
            daemon.wait_log("event=link.down link=consume", 40)
            between("delay all down 0")
            between("resume all down")
            daemon.wait_log("event=ready", 40)


def messages_that_expire_while_held_go_to_the_dead_letter_exchange():
    count = 200
    harness.delete_topology()
    harness.delete_queues("dead")
    with harness.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("dead", durable=True)
        channel.queue_declare(INTAKE, durable=True, arguments={"x-dead-letter-exchange": "",
                                                               "x-dead-letter-routing-key": "dead"})
        with Daemon() as daemon:
            channel.queue_delete(WORK)
            _publish(channel, count, expiration="300")
            wait_until(lambda: daemon.status()["intake"]["held"] == count, what="all held")
            time.sleep(0.5)  # past every expiration
            channel.queue_declare(WORK, durable=True, arguments={"x-max-priority": 2})
            wait_until(lambda: daemon.status()["intake"]["held"] == 0, 40, "nothing held")
            equal(queue_ready(WORK), 0, "forwarded although expired")
            equal(queue_ready("dead"), count, "dead-lettered")


def several_channels_hold_a_window_each():
    channels, window, count = 8, 20, 1000
    harness.delete_topology()
    with harness.connect() as connection:
        channel = connection.channel()
        with Daemon({"intake.channels": channels, "intake.window": window}) as daemon:
            channel.queue_delete(WORK)
            _publish(channel, count)
            wait_until(lambda: daemon.status()["intake"]["held"] == channels * window, what="full windows")
            equal(channel.queue_declare(INTAKE, passive=True).method.consumer_count, channels, "consumers")
            equal(queue_ready(INTAKE), count - channels * window, "left with RabbitMQ")
            channel.queue_declare(WORK, durable=True, arguments={"x-max-priority": 2})
            wait_until(lambda: _drained(daemon), 40, lambda: f"an empty intake: {daemon.status()['intake']}")
            equal(len({m[2] for m in harness.get_all(channel, WORK)}), count, "forwarded")


def stop_ends_soon_when_the_publishing_link_is_lost_meanwhile():
    harness.delete_topology()
    with harness.connect() as connection, proxy.Proxy(harness.amqp_port()) as between:
        channel = connection.channel()
        with Daemon(uri=between.uri()) as daemon:
            port = next(int(line.split()[0]) for line in
                        ctl("list_connections", "peer_port", "client_properties").splitlines() if ":publish" in line)
            number = next(n for n, (peer, _, _) in between.connections().items() if peer == port)
            between(f"hold {number} down")
            _publish(channel, 50)
            wait_until(lambda: daemon.status()["work"]["unconfirmed"] == 50, what="50 unconfirmed")
            daemon.signal(signal.SIGTERM)
            daemon.wait_log("event=stopping")
            between("refuse on")
            between(f"close {number} rst")
            equal(daemon.process.wait(10), 0, "exit code")
            assert "stopping.late" not in daemon.log(), daemon.log()[-2000:]
            equal(len({m[2] for m in harness.get_all(channel, INTAKE) + harness.get_all(channel, WORK)}), 50, "kept")


def one_forbidden_routing_key_is_parked_and_stops_nobody():
    count = 3000
    harness.delete_topology()
    harness.delete_queues("jobs", exchanges=["jobs", "in"])
    with harness.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("jobs", exchange_type="topic", durable=True)
        channel.exchange_declare("in", exchange_type="topic", durable=True)
        channel.queue_declare("jobs", durable=True)
        channel.queue_bind("jobs", "jobs", "#")
        with Daemon({"work.exchange": "jobs"}) as daemon:
            channel.queue_bind(INTAKE, "in", "#")
            ctl("set_topic_permissions", "guest", "jobs", "^ok", ".*")
            try:
                _publish(channel, 1, routing_key="bad.key", exchange="in")
                _publish(channel, count, routing_key="ok.key", exchange="in")
                wait_until(lambda: queue_ready(PARKED) == 1, 40, lambda: f"one parked: {daemon.status()['work']}")
                wait_until(lambda: _drained(daemon), 40, lambda: f"all forwarded: {daemon.status()}")
            finally:
                ctl("clear_topic_permissions", "guest")
            got = [body for _, _, body in harness.get_all(channel, "jobs")]
            equal(len(set(got)), count, "forwarded")
            assert len(got) <= count + 3 * 500, f"{len(got)} copies of {count}"
            _, properties, _ = channel.basic_get(PARKED, auto_ack=True)
            assert "403" in properties.headers["x-harbinger-parked-reason"], properties.headers
    harness.delete_queues("jobs", exchanges=["jobs", "in"])


def crashed_channels_of_the_broker_park_no_healthy_message():
    count = 6000
    harness.delete_topology()
    with proxy.Proxy(harness.amqp_port()) as between, Daemon(uri=between.uri()) as daemon, \
            harness.connect() as connection:
        channel = connection.channel()
        between("delay all both 60")
        _publish(channel, count)
        for _ in range(6):
            ctl("eval", "[exit(proplists:get_value(pid, I), kill) || I <- rabbit_channel:info_all([pid, confirm]), "
                "proplists:get_value(confirm, I)].", check=False)
        between("delay all both 0")
        wait_until(lambda: _drained(daemon), 60, lambda: f"all forwarded: {daemon.status()}")
        assert daemon.status()["links"]["publish"]["losses"] > 0, "the broker closed nothing"
        equal(queue_ready(PARKED), 0, "parked")
        equal(len({body for _, _, body in harness.get_all(channel, WORK)}), count, "forwarded")


def slow_confirms_do_not_end_in_endless_copies():
    """The message takes over 5 s to leave the kernel's buffers: the limit doubles from 2 s until it suffices."""
    harness.delete_topology()
    with proxy.Proxy(harness.amqp_port()) as between, harness.connect() as connection:
        with Daemon({"amqp.confirm_timeout": "2s"}, uri=between.uri()) as daemon:
            between("rate all up 150000")
            _publish(connection.channel(), 1, b"z" * 800000)
            wait_until(lambda: _drained(daemon) and queue_ready(WORK) > 0, 60, "the message forwarded")
            assert queue_ready(WORK) <= 3, f"{queue_ready(WORK)} copies"


def headers_larger_than_our_frames_stay_in_their_slot_and_stop_nobody():
    """RabbitMQ never splits a header frame: it comes as large as its producer could send it."""
    count = 100
    with harness.connect() as connection:
        channel = connection.channel()
        harness.delete_topology()
        with Daemon({"amqp.frame_max": "8KiB"}) as daemon:
            _publish(channel, 1, headers={"large": "x" * 9000})
            _publish(channel, count, b"small")
            wait_until(lambda: queue_ready(WORK) == count, 20, lambda: f"forwarded: {daemon.status()}")
            wait_until(lambda: daemon.status()["work"]["stuck"] == 1, what="one that is stuck")
            equal(daemon.status()["links"]["consume"]["losses"], 0, "losses")
            daemon.wait_log("event=parking.failed")
            equal(daemon.stop(10), 0, "exit code")
        with Daemon():
            wait_until(lambda: queue_ready(WORK) == count + 1, 20, "all forwarded with larger frames")


def oversized_report_is_counted_and_stops_no_other():
    with _fresh() as daemon, harness.connect() as connection:
        channel = connection.channel()
        channel.basic_publish(REPORTS, "", b"x" * ((8 << 20) + 1))
        for _ in range(5):
            channel.basic_publish(REPORTS, "", b'{"key":"a/b","duration_ms":3}')
        wait_until(lambda: daemon.status()["reports"]["learned"] == 5, what=lambda: f"learned: {daemon.status()}")
        equal(daemon.status()["reports"]["malformed"], 1, "malformed")


def _fresh():
    harness.delete_topology()
    return Daemon()


harness.main(globals())
