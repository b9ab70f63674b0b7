"""The harbinger backend of the daemon, seen by workers and clients in Python's gRPC."""
import decimal
import pathlib
import re
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
import pika  # noqa: E402
import rpc  # noqa: E402
from harness import Daemon, equal, wait_until  # noqa: E402
from oracle import INTAKE, PARKED, queue_ready  # noqa: E402

SETTINGS = {"backend": "harbinger", "rpc.listen": "127.0.0.1:0"}


def _daemon(settings=None):
    if rpc.grpc is None:
        raise harness.Skip("python3-grpcio is not installed")
    harness.delete_topology()
    return Daemon({**SETTINGS, **(settings or {})})


def _client(daemon, **options):
    address = wait_until(lambda: re.findall(r"event=rpc.up address=(\S+)", daemon.log()), what="rpc.up in the log")
    return rpc.Client(address[-1], **options).register()


def _publish(body, **properties):
    with harness.connect() as connection:
        connection.channel().basic_publish("", INTAKE, body, pika.BasicProperties(delivery_mode=2, **properties))


def a_worker_sees_body_headers_and_properties():
    with _daemon() as daemon, _client(daemon) as worker:
        _publish(b"\x00body\xff",
                 headers={"job_type": "mail", "n": 7, "half": decimal.Decimal("0.5"), "flag": True, "none": None,
                          "list": [1], "text": "smørrebrød"},
                 content_type="application/x", correlation_id="c1", reply_to="back", message_id="m1", type="t",
                 app_id="shop")
        message = worker.pull()
        equal(message.payload, b"\x00body\xff", "payload")
        equal(dict(message.headers), {"job_type": "mail", "n": "7", "half": "0.5", "flag": "1", "text": "smørrebrød",
                                      "content-type": "application/x", "correlation-id": "c1", "reply-to": "back",
                                      "message-id": "m1", "type": "t", "app-id": "shop"}, "headers")
        equal(message.lease_duration_ms, 30000, "lease")
        equal(daemon.status()["intake"]["acked"], 0, "acked before the worker's ack")
        worker.ack(message)
        wait_until(lambda: daemon.status()["intake"]["acked"] == 1, what="the intake's ack")
        equal(daemon.status()["reports"]["queue"], "harbinger.reports", "the reports queue is still read")


def durations_of_settlements_order_what_comes_next():
    with _daemon({"predictor.min_samples": 5, "predictor.global_min_samples": 10,
                  "predictor.boundary_refresh_every": 5}) as daemon, _client(daemon) as worker:
        for _ in range(15):
            for kind, ms in (("slow", 900.0), ("fast", 2.0)):
                _publish(b"x", headers={"job_type": kind})
                worker.ack(worker.pull(), ms)
        equal(daemon.status()["predictor"]["learned"], 30, "learned")
        for kind in ("slow", "slow", "fast"):
            _publish(b"x", headers={"job_type": kind})
        wait_until(lambda: daemon.status()["broker"]["waiting"] == 3, what="all three")
        order = []
        for _ in range(3):
            message = worker.pull()
            order.append(message.headers["job_type"])
            worker.ack(message)
        equal(order, ["fast", "slow", "slow"], "order of service")


def a_clients_message_is_in_memory_alone():
    with _daemon({"broker.max_attempts": 1}) as daemon:
        with _client(daemon) as client:
            client.submit(b"one", {"job_type": "k"})
            message = client.pull()
            equal((message.payload, message.headers["job_type"], message.headers["__producer_id"]),
                  (b"one", "k", client.producer), "what comes out")
            client.ack(message)
            client.submit(b"two")
            client.nack(client.pull(), "no")
            equal([entry.payload for entry in client.dead().entries], [b"two"], "dead letters")
            client.submit(b"three")
            equal(queue_ready(PARKED), 0, "parked")
        equal(daemon.stop(), 0, "exit code")
        daemon.start()
        with _client(daemon) as client:
            equal(client.pull(200), None, "after a restart")
            equal(client.dead().total_size, 0, "dead letters after a restart")


def _intake(daemon):
    return daemon.status()["intake"]


def without_workers_nothing_is_held_and_a_pull_wakes_the_intake():
    with _daemon({"intake.idle_after": "300ms"}) as daemon, _client(daemon) as worker:
        oracle.publish(10)
        intake = _intake(daemon)
        equal((intake["state"], intake["limit"], intake["held"], intake["received"]), ("sleeping", 0, 0, 0), "at first")
        equal(daemon.http("/readyz")[0], 200, "/readyz while it sleeps")
        first = worker.pull()
        wait_until(lambda: _intake(daemon)["state"] == "consuming", what="an intake that consumes")
        intake = _intake(daemon)
        equal((intake["limit"], intake["held"]), (1000, 10), "with a worker")
        worker.ack(first)
        failed = worker.pull()
        worker.nack(failed, "not now")
        # What has failed stays, or its attempts would be forgotten.
        wait_until(lambda: _intake(daemon)["state"] == "sleeping" and queue_ready(INTAKE) == 8, what="all given back")
        equal(_intake(daemon)["held"], 1, "held asleep")
        again = worker.pull()
        equal(again.payload, failed.payload, "the next one")
        worker.ack(again)
        for _ in range(8):
            worker.ack(worker.pull())
        equal(worker.pull(100), None, "more")
        wait_until(lambda: queue_ready(INTAKE) == 0 and _intake(daemon)["held"] == 0, what="an empty intake")
        equal(daemon.stop(), 0, "exit code")


def sidecars_share_an_intake_as_their_workers_do():
    settings = {"intake.window": "50", "intake.per_worker": "50"}
    with _daemon(settings) as one, _client(one) as worker, Daemon({**SETTINGS, **settings, "instance": "b"}) as two:
        oracle.publish(300)
        first = worker.pull()
        wait_until(lambda: _intake(one)["held"] == 50, what="the window of one worker")
        equal((_intake(one)["limit"], queue_ready(INTAKE), _intake(two)["held"]), (50, 250, 0), "with one worker")
        with _client(two) as other:
            theirs = [other.pull() for _ in range(3)]
            wait_until(lambda: _intake(two)["held"] == 150, what=lambda: f"the window of three: {_intake(two)}")
            equal((_intake(one)["held"], queue_ready(INTAKE)), (50, 100), "what is left to others")
            for message in theirs:
                other.ack(message)
        worker.ack(first)


def drain_takes_nothing_new_and_serves_what_is_held():
    with _daemon({"intake.idle_after": "0"}) as daemon, _client(daemon) as client:
        _publish(b"held")
        wait_until(lambda: daemon.status()["broker"]["waiting"] == 1, what="one held")
        client.stub.Drain(rpc.pb.DrainRequest(), timeout=5)
        equal(rpc.refused(client.submit, b"x")[0], "UNAVAILABLE", "a submission")
        wait_until(lambda: daemon.status()["intake"]["state"] == "draining", what="draining")
        oracle.publish(5)
        message = client.pull()
        equal(message.payload, b"held", "what was held")
        client.ack(message)
        equal(client.pull(300), None, "something new")
        wait_until(lambda: queue_ready(INTAKE) == 5, what="the rest left with RabbitMQ")
        equal(daemon.stop(), 0, "exit code")


def a_body_that_no_connection_would_hold_is_parked_and_stops_nobody():
    with _daemon() as daemon, _client(daemon) as worker:
        _publish(b"z" * (17 << 20))
        _publish(b"small")
        message = worker.pull()
        equal(message.payload, b"small", "the next one")
        worker.ack(message)
        wait_until(lambda: queue_ready(PARKED) == 1, what="one parked")
        with harness.connect() as connection:
            _, properties, body = connection.channel().basic_get(PARKED, auto_ack=True)
        equal(len(body), 17 << 20, "its body")
        assert "rpc.max_connection_bytes" in properties.headers["x-harbinger-parked-reason"], properties.headers
        wait_until(lambda: daemon.status()["intake"]["held"] == 0, what="nothing held")


def a_token_is_asked_for_and_read_again():
    with tempfile.NamedTemporaryFile("w") as token:
        token.write("first\n")
        token.flush()
        with _daemon({"rpc.token_file": token.name}) as daemon:
            equal(rpc.refused(_client, daemon)[0], "UNAUTHENTICATED", "without a token")
            _client(daemon, metadata=[("authorization", "Bearer first")]).close()
            token.seek(0)
            token.write("second\n")
            token.truncate()
            token.flush()
            daemon.signal(signal.SIGHUP)
            daemon.wait_log("event=reloaded")
            equal(rpc.refused(_client, daemon, metadata=[("authorization", "Bearer first")])[0], "UNAUTHENTICATED",
                  "the old token")
            _client(daemon, metadata=[("authorization", "Bearer second")]).close()


def a_port_that_is_taken_stops_the_start():
    with _daemon() as daemon:
        address = re.findall(r"event=rpc.up address=(\S+)", daemon.log())[-1]
        with Daemon({**SETTINGS, "rpc.listen": address}, wait=False) as second:
            assert second.process.wait(10) != 0, "exit code"
            assert address.rsplit(":", 1)[1] in second.log(), second.log()


def the_rabbitmq_backend_does_not_listen():
    harness.delete_topology()
    with Daemon() as daemon:
        assert "rpc.up" not in daemon.log(), daemon.log()
        equal(daemon.status()["broker"], None, "broker in the status")


harness.main(globals())
