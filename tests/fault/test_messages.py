"""Messages and topologies that RabbitMQ or the sidecar cannot take as they are. (Faults 20 to 22)"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
import pika  # noqa: E402
from harness import Daemon, ctl, equal, wait_until  # noqa: E402
from oracle import INTAKE, PARKED, WORK, queue_ready  # noqa: E402

SIDE_URI = harness.AMQP.replace("guest:guest", "side:side")


def _fresh(settings=None, **options):
    harness.delete_topology()
    return Daemon(settings, **options)


def _send(body, queue=INTAKE, **properties):
    """Publishes one message and waits for its confirm."""
    with harness.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2, **properties), mandatory=True)


def _take(queue, count=1, limit=20):
    wait_until(lambda: queue_ready(queue) >= count, limit, lambda: f"{count} in {queue}: {queue_ready(queue)}")
    with harness.connect() as connection:
        return harness.get_all(connection.channel(), queue)


def _side_user(configure=".*"):
    ctl("delete_user", "side", check=False)
    ctl("add_user", "side", "side")
    ctl("set_permissions", "-p", "/", "side", configure, ".*", ".*")


def forged_user_id_is_parked_with_the_reason_and_the_rest_goes_through():
    _side_user()
    with _fresh({"work.impersonate": "true"}, uri=SIDE_URI) as daemon:
        # Numbers that are multiples of three carry user_id guest, which "side" may not claim.
        producer = oracle.publish(60)
        wait_until(lambda: queue_ready(PARKED) == 20, 60, lambda: f"20 parked: {daemon.status()['work']}")
        oracle.wait_forwarded(daemon)
        tally = oracle.Tally().drain()
        equal(len(tally.seen), 40, "through")
        tally.drain(PARKED)
        # RabbitMQ had taken some that it did not confirm before it closed the channel.
        oracle.Verdict([producer], tally).expect(at_most_duplicated=60)
        reasons = [r for r in tally.reasons if r]
        assert reasons and all("406" in r or "user" in r for r in reasons), tally.reasons


def user_id_is_moved_when_the_sidecar_may_not_impersonate():
    _side_user()
    with _fresh(uri=SIDE_URI) as daemon:
        oracle.settle(daemon, [oracle.publish(60)])
        equal(queue_ready(PARKED), 0, "parked")


def headers_up_to_the_frame_limit_go_through():
    with _fresh() as daemon:
        body = b"x" * 10
        for size in (100000, 130000, 130700, 130980):
            _send(body, headers={"h": "a" * size})
        _send(body, headers={f"k{n}": n for n in range(7000)})
        deep = {"end": True}
        for _ in range(60):
            deep = {"d": deep}
        _send(body, headers=deep)
        _send(body, headers={"job_type": b"\xff\xfe\x00"})
        _send(body, headers={"job_type": "x" * 5000})
        _send(body, headers={"job_type": "a\x1fb\n"})
        _send(b"")
        got = _take(WORK, 10, 40)
        equal(len(got), 10, "through")
        sizes = [len((p.headers or {}).get("h", "")) for _, p, _ in got]
        equal(sorted(sizes)[-4:], [100000, 130000, 130700, 130980], "long headers")
        equal(max(len(p.headers or {}) for _, p, _ in got) >= 7000, True, "many headers")
        equal(queue_ready(PARKED), 0, "parked")
        equal(daemon.process.poll(), None, "exit code")


class _Bytes(str):
    """A text that goes onto the wire as bytes which are no UTF-8."""

    def encode(self, *_):
        return b"\xff\xc0\x80" + str.encode(self)


def ten_thousand_headers_go_through():
    with _fresh() as daemon:
        _send(b"1 ", headers={f"key{n}": True for n in range(10000)})
        got = _take(WORK, 1, 40)[0][1].headers
        kept = [name for name in got if not name.startswith("x-harbinger-")]
        equal(kept, [f"key{n}" for n in range(10000)], "names, in their order")
        assert "x-harbinger-id" in got, "no room was found for the sidecar's own headers"
        equal(daemon.status()["intake"]["held"], 0, "held")


def texts_that_are_no_utf8_go_through():
    with _fresh() as daemon, harness.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("jobs.in", "fanout")
        channel.queue_bind(INTAKE, "jobs.in")
        channel.confirm_delivery()
        properties = pika.BasicProperties(app_id="app", headers={"job_type": _Bytes("type"), "other": _Bytes("x")})
        channel.basic_publish("jobs.in", _Bytes("key"), b"1 ", properties, mandatory=True)
        headers = _take(WORK)[0][1].headers
        equal(headers["job_type"], b"\xff\xc0\x80type", "job_type")
        equal(headers["other"], b"\xff\xc0\x80x", "another header")
        equal(headers["x-harbinger-routing-key"], b"\xff\xc0\x80key", "routing key")
        print(f"# key {headers['x-harbinger-key']!r}", flush=True)
        # A worker can only report such a key as JSON has it: it must not hurt.
        channel.basic_publish(oracle.REPORTS, "", b'{"key":"app/\xff\xc0\x80type","duration_ms":1}')
        wait_until(lambda: daemon.status()["reports"]["malformed"] == 1, what="the report counted as malformed")
        channel.exchange_delete("jobs.in")


def body_over_the_brokers_limit_does_not_stop_the_others():
    with _fresh() as daemon:
        equal(daemon.stop(), 0, "exit code")
        _send(b"y" * 50000)
        producer = oracle.publish(200)
        ctl("eval", "application:set_env(rabbit, max_message_size, 40000).")
        try:
            daemon.start()
            wait_until(lambda: queue_ready(WORK) == 200, 60, lambda: f"the others: {daemon.status()}")
            daemon.wait_log("event=parking.failed")  # the parking queue refuses it as well
            status = daemon.status()
            equal(status["intake"]["held"], 1, "held")
            equal(status["work"]["stuck"], 1, "stuck")
        finally:
            ctl("eval", "application:set_env(rabbit, max_message_size, 134217728).")
        oracle.Verdict([producer], oracle.Tally().drain()).expect()
        equal(daemon.stop(), 0, "exit code")
        equal(queue_ready(INTAKE), 1, "the stuck one, back in the intake")


def copies_are_not_routed_again():
    with _fresh() as daemon:
        with harness.connect() as connection:
            channel = connection.channel()
            channel.queue_delete("third")
            channel.queue_declare("third", durable=True)
            _send(b"1 ", headers={"CC": ["third"], "BCC": ["third"]})
            _send(b"2 ", headers={"CC": [INTAKE]})
            _send(b"3 ", headers={"CC": [INTAKE, "third"]})
            got = _take(WORK, 3)
            equal(sorted(body for _, _, body in got), [b"1 ", b"2 ", b"3 "], "at work")
            equal(len(harness.get_all(channel, "third")), 2, "copies by the producer's own publish")
            headers = {body: p.headers for _, p, body in got}
            assert not any("CC" in h or "BCC" in h for h in headers.values()), headers
            equal(headers[b"3 "]["x-harbinger-cc"], [INTAKE, "third"], "x-harbinger-cc")
            equal(daemon.status()["intake"]["received"], 3, "received: no loop")
            channel.queue_delete("third")


def forged_headers_are_replaced():
    with _fresh():
        _send(b"1 ", headers={"x-harbinger-id": "forged", "x-harbinger-level": 9, "x-harbinger-parked-reason": "r"})
        headers = _take(WORK)[0][1].headers
        assert headers["x-harbinger-id"] != "forged" and headers["x-harbinger-level"] != 9, headers
        assert "x-harbinger-parked-reason" not in headers, headers


def work_queue_without_priorities_is_reported_and_left_alone():
    harness.delete_topology()
    with harness.connect() as connection:
        channel = connection.channel()
        channel.queue_declare(WORK, durable=True)
        channel.basic_publish("", WORK, b"mine")
        with Daemon(wait=False) as daemon:
            daemon.wait_log("x-max-priority") if daemon.process.poll() is None else None
            wait_until(lambda: "topology.problem" in daemon.log(), what="the problem in the log")
            time.sleep(0.5)
            assert "event=ready" not in daemon.log(), "it says it is ready"
            assert daemon.process.poll() in (None, 1, 2), daemon.process.returncode
        channel.queue_declare(WORK, durable=True)  # fails if it was declared anew
        equal(harness.ready_count(channel, WORK), 1, "the message that lay there")


def missing_queues_with_topology_check_are_reported_and_not_made():
    harness.delete_topology()
    with Daemon({"amqp.topology": "check"}, wait=False) as daemon:
        wait_until(lambda: "topology.problem" in daemon.log(), what="the problem in the log")
        assert INTAKE in daemon.log(), daemon.log()
        assert "event=ready" not in daemon.log(), "it says it is ready"
    with harness.connect() as connection:
        try:
            connection.channel().queue_declare(INTAKE, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            equal(error.reply_code, 404, "reply code")
            return
    raise AssertionError("it has made the intake")


def missing_configure_permission_is_reported():
    _side_user(configure="^$")
    harness.delete_topology()
    with Daemon(uri=SIDE_URI, wait=False) as daemon:
        wait_until(lambda: "topology.problem" in daemon.log(), what=lambda: f"a problem in\n{daemon.log()}")
        assert "403" in daemon.log() or "access" in daemon.log(), daemon.log()
        assert "event=ready" not in daemon.log(), "it says it is ready"


harness.main(globals())
