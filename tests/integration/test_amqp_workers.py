"""AMQP workers of the harbinger backend, connected to the daemon's proxy with pika, as they would be to RabbitMQ."""
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
import pika  # noqa: E402
import rpc  # noqa: E402
from harness import Daemon, equal, wait_until  # noqa: E402
from oracle import INTAKE, PARKED, WORK, queue_ready  # noqa: E402

SETTINGS = {"backend": "harbinger", "rpc.listen": "127.0.0.1:0", "proxy.listen": "127.0.0.1:0"}
DEAD = "amqp-workers.dead"


def _daemon(settings=None, arguments=None):
    harness.delete_topology()
    harness.delete_queues(DEAD)
    if arguments is not None:
        with harness.connect() as connection:
            connection.channel().queue_declare(INTAKE, durable=True, arguments=arguments)
            connection.channel().queue_declare(DEAD, durable=True)
    return Daemon({**SETTINGS, **(settings or {})})


class _Worker:
    """A consumer on a connection of its own. `got` is what came: (method, properties, body)."""

    def __init__(self, daemon, queue=WORK, prefetch=1):
        address = wait_until(lambda: re.findall(r"event=proxy.up address=(\S+)", daemon.log()), what="proxy.up")[-1]
        self.connection = pika.BlockingConnection(pika.URLParameters(f"amqp://guest:guest@{address}/%2f"))
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.got = []
        if queue is not None:
            self.channel.basic_consume(queue, lambda _, method, properties, body: self.got.append(
                (method, properties, body)))

    def take(self, count=1, limit=15.0):
        """The next `count` messages."""
        def enough():
            self.connection.process_data_events(0.01)
            return len(self.got) >= count
        wait_until(enough, limit, lambda: f"{count} deliveries, not {len(self.got)}")
        taken, self.got = self.got[:count], self.got[count:]
        return taken

    def ack(self, message):
        self.channel.basic_ack(message[0].delivery_tag)
        self.connection.process_data_events(0)

    def __enter__(self):
        return self

    def cut(self):
        """Its machine is gone."""
        self.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)  # pylint: disable=protected-access

    def __exit__(self, *_):
        try:
            if self.connection.is_open:
                self.connection.close()
        except pika.exceptions.AMQPError:
            pass  # the other side was faster


def _intake(daemon):
    return daemon.status()["intake"]


def _proxy(daemon):
    return daemon.status()["broker"]["proxy"]


def _publish(*bodies, **properties):
    with harness.connect() as connection:
        for body in bodies:
            connection.channel().basic_publish("", INTAKE, body, pika.BasicProperties(delivery_mode=2, **properties))


def an_ack_settles_the_intakes_delivery_and_teaches():
    with _daemon() as daemon, _Worker(daemon) as worker:
        _publish(b"\x00one", headers={"job_type": "mail", "n": 7}, correlation_id="c", priority=3)
        (method, properties, body), = worker.take()
        equal((body, properties.headers, properties.correlation_id, properties.priority, properties.delivery_mode),
              (b"\x00one", {"job_type": "mail", "n": 7}, "c", 3, 2), "as it was published")
        equal((method.exchange, method.routing_key, method.redelivered), ("", INTAKE, False), "where it comes from")
        equal(_intake(daemon)["acked"], 0, "acked before the worker's ack")
        rows = _proxy(daemon)["clients"]
        equal([(row["user"], row["consumers"], row["window"], row["in_flight"]) for row in rows],
              [("guest", 1, 1, 1)], "clients")
        worker.connection.sleep(0.05)
        worker.ack((method,))
        wait_until(lambda: _intake(daemon)["acked"] == 1, what="the intake's ack")
        equal((daemon.status()["broker"]["learned"], _proxy(daemon)["timed"]), (1, 1), "durations learned")
        metrics = daemon.metrics()
        equal(metrics['harbinger_proxy_settled_total{how="ack"}'], 1, "metric")


def a_reject_goes_where_the_intakes_dead_letters_go():
    with _daemon(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}) as daemon, \
            _Worker(daemon) as worker:
        _publish(b"bad")
        (method, _, _), = worker.take()
        worker.channel.basic_reject(method.delivery_tag, requeue=False)
        worker.connection.process_data_events(0)
        wait_until(lambda: queue_ready(DEAD) == 1, what="a dead letter")
        with harness.connect() as connection:
            _, properties, body = connection.channel().basic_get(DEAD, auto_ack=True)
        equal((body, properties.headers["x-first-death-reason"], properties.headers["x-first-death-queue"]),
              (b"bad", "rejected", INTAKE), "the dead letter")
        equal((daemon.status()["broker"]["rejected"], queue_ready(PARKED), _intake(daemon)["held"]), (1, 0, 0), "here")


def what_fails_too_often_is_parked():
    with _daemon({"broker.max_attempts": "2"}) as daemon, _Worker(daemon) as worker:
        _publish(b"hard")
        (method, _, _), = worker.take()
        worker.channel.basic_nack(method.delivery_tag, requeue=True)
        (method, _, _), = worker.take()
        equal(method.redelivered, True, "redelivered")
        worker.cut()
        wait_until(lambda: queue_ready(PARKED) == 1, what="one parked")
        wait_until(lambda: _intake(daemon)["held"] == 0, what="nothing held")


def workers_of_the_intake_itself_get_what_it_holds():
    with _daemon() as daemon, _Worker(daemon, queue=INTAKE, prefetch=3) as worker:
        _publish(b"1", b"2", b"3", b"4")
        first = worker.take(3)
        equal(_intake(daemon)["held"], 4, "held, one of them waiting")
        worker.ack(first[0])
        equal(len(worker.take()), 1, "the fourth")
        with harness.connect() as connection:
            equal(connection.channel().queue_declare(WORK, passive=True).method.message_count, 0, "in the work queue")


def a_get_wakes_the_intake_and_takes_what_it_holds():
    with _daemon() as daemon, _Worker(daemon, queue=None) as worker:
        _publish(b"x")
        equal(_intake(daemon)["state"], "sleeping", "without workers")

        def got():
            method, _, body = worker.channel.basic_get(WORK)
            if method is not None:
                worker.channel.basic_ack(method.delivery_tag)
            return body
        equal(wait_until(got, what="a message"), b"x", "body")
        wait_until(lambda: _intake(daemon)["acked"] == 1, what="its ack")


def without_consumers_all_goes_back():
    with _daemon({"intake.idle_after": "300ms"}) as daemon:
        with _Worker(daemon) as worker:
            _publish(*[b"%d" % i for i in range(10)])
            worker.take()
            wait_until(lambda: _intake(daemon)["held"] == 10, what="all held")
        # Closed in order, the one that it had is put back and is no failure.
        wait_until(lambda: queue_ready(INTAKE) == 10 and _intake(daemon)["state"] == "sleeping", what="all given back")
        status = daemon.status()["broker"]
        equal((status["nacked"], status["proxy"]["put_back"], status["returned"]), (0, 1, 1), "attempts")


def an_ack_while_the_intake_is_away_counts():
    with _daemon() as daemon, _Worker(daemon, prefetch=5) as worker:
        _publish(*[b"%d" % i for i in range(10)])
        took = worker.take(5)
        wait_until(lambda: _intake(daemon)["held"] == 10, what="all held")
        harness.ctl("eval", "[rabbit_networking:close_connection(P, \"by the test\") || P <- "
                    "rabbit_networking:connections(), {client_properties, L} <- rabbit_networking:connection_info(P, "
                    "[client_properties]), {<<\"connection_name\">>, _, N} <- L, "
                    "binary:match(N, <<\"consume\">>) =/= nomatch].")
        # It may even be back by now: what came again is recognised then.
        wait_until(lambda: _intake(daemon)["unbacked"] + _intake(daemon)["recognised"] > 0, what="a lost intake")
        for message in took:
            worker.ack(message)
        rest = worker.take(5)
        for message in rest:
            worker.ack(message)
        wait_until(lambda: _intake(daemon)["acked"] == 10 and _intake(daemon)["unbacked"] == 0, what="all acked")
        equal(sorted(int(body) for _, _, body in took + rest), list(range(10)), "each once")
        wait_until(lambda: queue_ready(INTAKE) == 0, what="an empty intake")


def what_clients_submit_reaches_amqp_workers_too():
    rpc.need()
    with _daemon() as daemon, _Worker(daemon) as worker:
        address = wait_until(lambda: re.findall(r"event=rpc.up address=(\S+)", daemon.log()), what="rpc.up")[-1]
        with rpc.Client(address).register() as client:
            client.submit(b"from a client", {"job_type": "mail", "key": "välue"})
            (method, properties, body), = worker.take()
            equal((body, method.exchange, method.routing_key), (b"from a client", "", WORK), "the message")
            equal((properties.headers["job_type"], properties.headers["key"]), ("mail", "välue"), "headers")
            worker.channel.basic_reject(method.delivery_tag, requeue=False)
            worker.connection.process_data_events(0)
            wait_until(lambda: client.dead().total_size == 1, what="a dead letter")
            equal(client.dead().entries[0].reason, rpc.pb.DLQ_PROCESSING_ERROR, "its reason")


def operators_see_who_is_connected():
    def status(*arguments):
        address = re.findall(r"event=rpc.up address=(\S+)", daemon.log())[-1]
        return subprocess.run([str(harness.BUILD / "src/cli/harbinger"), "--connect", address, "status", *arguments],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
    with _daemon() as daemon, _Worker(daemon, prefetch=5) as worker:
        _publish(b"1", b"2")
        worker.take(2)
        rows = json.loads(status("--json"))
        equal((rows["amqp_connections"], len(rows["amqp_clients"])), (1, 1), "clients")
        row = rows["amqp_clients"][0]
        equal((row["user"], row["state"], row["channels"], row["consumers"], row["window"], row["in_flight"],
               row["delivered"]), ("guest", "open", 1, 1, 5, 2, 2), "the worker")
        assert row["peer"].startswith("127.0.0.1:") and "Pika" in row["product"], row
        table = status()
        assert re.search(r"^AMQP client +user +product", table, re.M), table
        assert re.search(rf"^{row['peer']} +guest +.* open +1 +5 +2 +2 +\d+$", table, re.M), table


def stopping_lets_workers_finish_and_sends_them_away():
    with _daemon() as daemon, _Worker(daemon) as busy, _Worker(daemon, prefetch=5) as idle:
        _publish(b"1")
        wait_until(lambda: (busy.connection.process_data_events(0.01), idle.connection.process_data_events(0.01),
                            len(busy.got) + len(idle.got))[2] == 1, what="one at a worker")
        if idle.got:
            busy, idle = idle, busy
        message, = busy.take()
        daemon.signal(signal.SIGTERM)

        def sent_away():
            try:
                idle.connection.process_data_events(0.05)
            except pika.exceptions.AMQPError as error:
                return getattr(error, "reply_code", 320) == 320
            return False
        wait_until(sent_away, what="the idle one is sent away")
        busy.channel.basic_ack(message[0].delivery_tag)
        equal(daemon.process.wait(15), 0, "exit code")
        equal(queue_ready(INTAKE), 0, "left in the intake")


def the_address_is_needed():
    with _daemon() as daemon:
        address = re.findall(r"event=proxy.up address=(\S+)", daemon.log())[-1]
        with Daemon({**SETTINGS, "proxy.listen": address}, wait=False) as second:
            assert second.process.wait(10) != 0, "exit code"
            assert address.rsplit(":", 1)[1] in second.log(), second.log()


harness.main(globals())
