"""AMQP workers, and everything around them dies, stalls or talks nonsense; in the arm of HARBINGER_TEST_ARM.

What holds on RabbitMQ alone must hold through the proxy: nothing is lost, and what is begun with twice was in flight
when something died. Only the proxy's own process is more than RabbitMQ alone has.
"""
import pathlib
import random
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import arm as arms  # noqa: E402
import harness  # noqa: E402
import oracle  # noqa: E402
import pika  # noqa: E402
from harness import equal, wait_until  # noqa: E402
from proxy import Proxy  # noqa: E402
from workers import AmqpWorkers, judge  # noqa: E402

COUNT = 12000 if harness.LONG else 1500
WORKER_KILLS, SIDECAR_KILLS = (20, 5) if harness.LONG else (6, 2)
TIMEOUT_S = 10 if harness.LONG else 6
ANSWER_S = 30
TICK_MS, USUAL_TIMEOUT_MS, USUAL_TICK_MS = 1000, 1800000, 60000


def _workers(arm, uri=None, **options):
    return AmqpWorkers(uri or arm.workers, queue=arm.work, **options)


def _producer(arm, count, first=0, **options):
    return oracle.Producer(count, first, key=arm.intake, **options)


def _publish(arm, count, first=0):
    return oracle.publish(count, first, key=arm.intake)


def _consumer(arm, prefetch, uri=None):
    """A connection whose consumer takes and never acks: (connection, its deliveries)."""
    connection, got = harness.connect(uri or arm.workers), []
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)
    channel.basic_consume(arm.work, lambda _c, method, _p, body: got.append((method, oracle.number_of(body))))
    return connection, got


def _wait_seen(workers, numbers, limit=60):
    """Until those numbers were begun with."""
    numbers = set(numbers)
    wait_until(lambda: numbers <= set(workers.seen()), limit,
               lambda: f"all {len(numbers)} begun with: {len(numbers - set(workers.seen()))} are missing")


def _expect_nothing_left(arm, limit=30):
    with harness.connect() as connection:
        channel = connection.channel()
        wait_until(lambda: arm.left(channel) == 0, limit, lambda: f"nothing left, not {arm.left(channel)}")


def _finish(arm, producers, workers, **bounds):
    """All that was confirmed is handled, settled, and as often as allowed."""
    _wait_seen(workers, set().union(*(p.confirmed for p in producers)), 120)
    workers.stop()
    _expect_nothing_left(arm)
    judge(producers, workers, **bounds)


# --- what dies ----------------------------------------------------------------------------------

def killed_workers_and_sidecars_lose_nothing():
    rng, prefetch, fleet = random.Random(1), 4, 3
    deaths = ["worker"] * WORKER_KILLS + ["sidecar"] * (SIDECAR_KILLS if arms.NAME == "proxy" else 0)
    rng.shuffle(deaths)
    with arms.Arm() as arm, _workers(arm, count=fleet, prefetch=prefetch, handle_ms=1) as workers:
        producer = _producer(arm, COUNT)
        for number, death in enumerate(deaths, 1):
            goal = number * COUNT // (len(deaths) + 2)
            wait_until(lambda goal=goal: len(workers.seen()) >= goal, 60,
                       lambda goal=goal: f"{goal} begun with: {len(workers.seen())}")
            if death == "worker":
                victim = rng.choice([p for p in workers.processes if p.poll() is None])
                victim.kill()
                victim.wait()
                workers.revive()
            else:
                arm.daemon.kill()
                arm.daemon.start()
        producer.done()
        equal(len(producer.confirmed), COUNT, "confirmed")
        # What a sidecar has acked for its workers may not have reached RabbitMQ: as much again.
        _finish(arm, [producer], workers,
                at_most_duplicated=prefetch * (WORKER_KILLS + 2 * fleet * deaths.count("sidecar")))


def a_broker_restart_under_load_loses_nothing():
    with arms.Arm() as arm, _workers(arm, count=3, prefetch=4, handle_ms=1) as workers:
        producer = _producer(arm, 100000)
        wait_until(lambda: len(workers.seen()) > 200, 30, "a flow")
        harness.rabbit_node("kill" if harness.LONG else "stop")
        harness.rabbit_node("start")
        before = len(workers.seen())
        wait_until(lambda: len(workers.seen()) > before + 200, 60, "a flow again")
        producer.stop().done(90)
        held = arm.daemon.status()["intake"]["held"] if arm.daemon else 0
        _finish(arm, [producer], workers, at_most_duplicated=3 * 4 * 2 + held)


def a_connection_that_breaks_gives_back_what_it_had():
    with arms.Arm() as arm, Proxy(pika.URLParameters(arm.workers).port) as link:
        producer = _publish(arm, 20)
        broken, got = _consumer(arm, 7, link.uri())
        wait_until(lambda: broken.process_data_events(0.02) or len(got) == 7, what="7 deliveries")
        link("close all rst")
        with _workers(arm) as workers:
            _finish(arm, [producer], workers)


def a_worker_that_has_gone_silent_loses_its_messages():
    """Its network is dead and says nothing: heartbeats must notice, also those that somebody sends in its place."""
    with arms.Arm() as arm, Proxy(pika.URLParameters(arm.workers).port) as link:
        producer = _publish(arm, 20)
        silent = pika.BlockingConnection(pika.URLParameters(link.uri() + "?heartbeat=2"))
        channel, got = silent.channel(), []
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume(arm.work, lambda *delivery: got.append(delivery))
        wait_until(lambda: silent.process_data_events(0.02) or len(got) == 7, what="7 deliveries")
        link("hole all")
        with _workers(arm) as workers:
            _finish(arm, [producer], workers)


# --- who stalls ---------------------------------------------------------------------------------

def a_client_that_never_acks_holds_up_nobody():
    with arms.Arm() as arm:
        idle, got = _consumer(arm, 10)
        producer = _publish(arm, 400)
        wait_until(lambda: idle.process_data_events(0.02) or len(got) == 10, what="10 deliveries")
        kept = {number for _, number in got}
        with _workers(arm, prefetch=5) as workers:
            _wait_seen(workers, producer.confirmed - kept)
            assert not kept & set(workers.seen()), "delivered twice"
            idle.process_data_events(0.02)
            equal(len(got), 10, "deliveries without an ack")
            idle.close()
            _finish(arm, [producer], workers)


def a_client_that_does_not_read_holds_up_nobody_and_fills_no_memory():
    """Its window is without limit and its messages are large: they must wait somewhere else."""
    bodies, size = 300, 100000
    with arms.Arm({"intake.window_bytes": "16MiB"}) as arm, Proxy(pika.URLParameters(arm.workers).port) as link, \
            harness.connect() as connection:
        memory = arm.daemon.memory_kib() if arm.daemon else 0
        slow, got = _consumer(arm, 0, link.uri())
        link("hold all down")
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(bodies):
            channel.basic_publish("", arm.intake, b"%d " % number + bytes(size))
        with _workers(arm, prefetch=2) as workers:
            small = _publish(arm, 300, first=bodies)
            if arm.daemon:  # RabbitMQ alone may have handed everything to the one without a limit
                _wait_seen(workers, small.confirmed)
                grown = arm.daemon.memory_kib() - memory
                assert not harness.PLAIN or grown < 64 * 1024, f"grew by {grown} KiB"
            link("resume all down")
            slow.process_data_events(0.1)
            slow.close()
            _wait_seen(workers, range(bodies + 300))
            workers.stop()
            _expect_nothing_left(arm)
        assert len({number for _, number in got}) == len(got), "one client had a message twice"


def _delivery_timeout(ms, tick_ms):
    harness.ctl("eval", f"application:set_env(rabbit, consumer_timeout, {ms}), "
                        f"application:set_env(rabbit, channel_tick_interval, {tick_ms}).")


def a_backlog_older_than_rabbitmqs_delivery_timeout_is_handled_once():
    _delivery_timeout(TIMEOUT_S * 1000, TICK_MS)
    try:
        with arms.Arm({"intake.delivery_timeout": f"{TIMEOUT_S}s"}) as arm:
            producer = _publish(arm, 20)
            with _workers(arm, count=2, handle_ms=TIMEOUT_S * 1000 / 6) as workers:
                _finish(arm, [producer], workers)
    finally:
        _delivery_timeout(USUAL_TIMEOUT_MS, USUAL_TICK_MS)


def a_worker_slower_than_rabbitmqs_delivery_timeout_costs_nobody_else_anything():
    _delivery_timeout(TIMEOUT_S * 1000, TICK_MS)
    try:
        with arms.Arm({"intake.delivery_timeout": f"{TIMEOUT_S}s"}) as arm:
            stuck, got = _consumer(arm, 1)
            producer = _publish(arm, 200)
            wait_until(lambda: stuck.process_data_events(0.02) or got, what="a delivery")
            kept = got[0][1]
            with _workers(arm, handle_ms=1) as workers:
                _wait_seen(workers, producer.confirmed - {kept})
                # RabbitMQ takes it from the stuck one, on the channel of whoever holds it for that one.
                _wait_seen(workers, {kept}, 6 * TIMEOUT_S)
                try:
                    stuck.close()
                except pika.exceptions.AMQPError:
                    pass
                _finish(arm, [producer], workers, at_most_duplicated=1)
    finally:
        _delivery_timeout(USUAL_TIMEOUT_MS, USUAL_TICK_MS)


def a_memory_alarm_stops_producers_and_no_worker():
    with arms.Arm() as arm, _workers(arm, count=1, prefetch=4) as workers:
        producers = [_publish(arm, 1)]
        _wait_seen(workers, {0})
        workers.kill()
        producers.append(_publish(arm, 500, first=1))
        harness.ctl("set_vm_memory_high_watermark", "absolute", "1MB")
        try:
            workers.revive()
            _wait_seen(workers, range(501))
            _expect_nothing_left(arm)
        finally:
            harness.ctl("set_vm_memory_high_watermark", "0.4")
        producers.append(_publish(arm, 100, first=501))
        _finish(arm, producers, workers)


# --- who talks nonsense -------------------------------------------------------------------------

def _frame(kind, channel, payload, end=0xCE, size=None):
    size = len(payload) if size is None else size
    return bytes([kind]) + channel.to_bytes(2, "big") + size.to_bytes(4, "big") + payload + bytes([end])


def _nonsense(rng):
    """(what it is, what is sent after the protocol header or instead of it)"""
    header = b"AMQP\x00\x00\x09\x01"
    method = (60).to_bytes(2, "big") + (80).to_bytes(2, "big")  # basic.ack
    return [("random bytes", rng.randbytes(5000)),
            ("nothing at all", b""),
            ("half a header", header[:5]),
            ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200)),
            ("random bytes after the header", header + rng.randbytes(5000)),
            ("a method before the login", header + _frame(1, 1, method + bytes(9))),
            ("no end of frame", header + _frame(1, 0, method + bytes(9), end=0)),
            ("a frame of 4 GiB", header + _frame(1, 0, b"x" * 100, size=2 ** 32 - 1)),
            ("a frame of another kind", header + _frame(77, 0, b"x" * 100)),
            ("a body before the login", header + _frame(3, 5, b"x" * 100)),
            ("an empty method", header + _frame(1, 0, b""))]


def _after_login(arm):
    """A socket that is logged in, taken from pika, to say something wrong with."""
    connection = harness.connect(arm.workers)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume(arm.work, lambda *_: None)
    return connection, connection._impl._transport._sock  # pylint: disable=protected-access


def _wrong_frames(rng):
    """What a client may say wrongly on its channel 1."""
    def method(class_id, method_id, rest=b""):
        return class_id.to_bytes(2, "big") + method_id.to_bytes(2, "big") + rest
    return [("random bytes", rng.randbytes(3000)),
            ("a frame larger than agreed", _frame(1, 1, bytes(200000))),
            ("no end of frame", _frame(1, 1, method(60, 80, bytes(9)), end=0x41)),
            ("an ack that is cut", _frame(1, 1, method(60, 80, b"\x00\x01"))),
            ("a qos that is cut", _frame(1, 1, method(60, 10, b"\x00"))),
            ("a consume whose name is longer than it", _frame(1, 1, method(60, 20, b"\x00\x00\xff" + b"x" * 10))),
            ("an unknown method", _frame(1, 1, method(60, 999))),
            ("an unknown class", _frame(1, 1, method(999, 1))),
            ("a body without a header", _frame(3, 1, b"x" * 10)),
            ("a header without a method", _frame(2, 1, bytes(14))),
            ("a channel that is not open", _frame(1, 60000, method(60, 80, bytes(9)))),
            ("a method on channel 0", _frame(1, 0, method(60, 80, bytes(9)))),
            ("a delivery from a client", _frame(1, 1, method(60, 60, b"\x01x" + bytes(9) + b"\x00\x00")))]


def _read_to_the_end(sock, what):
    """Until the other side closes. Some nonsense only the handshake's own limit ends."""
    sock.settimeout(ANSWER_S)
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        pass
    except TimeoutError as error:
        raise AssertionError(f"{what}: not closed within {ANSWER_S} s") from error


def nonsense_instead_of_a_login_ends_that_connection_alone():
    rng = random.Random(2)
    with arms.Arm() as arm, _workers(arm) as workers:
        port, open_ones = pika.URLParameters(arm.workers).port, []
        for what, words in _nonsense(rng):
            sock = socket.create_connection(("127.0.0.1", port), timeout=10)
            open_ones.append((what, sock))
            try:
                sock.sendall(words)
            except ConnectionError:
                pass
        producer = _publish(arm, 300)
        _wait_seen(workers, producer.confirmed)
        for what, sock in open_ones:
            _read_to_the_end(sock, what)
            sock.close()
        _finish(arm, [producer], workers)


def wrong_frames_after_the_login_end_that_connection_alone():
    rng = random.Random(3)
    with arms.Arm() as arm, _workers(arm) as workers:
        producers = []
        for number, (what, words) in enumerate(_wrong_frames(rng)):
            producers.append(_publish(arm, 20, first=20 * number))
            connection, sock = _after_login(arm)
            sock.setblocking(True)
            try:
                sock.sendall(words)
                sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            _read_to_the_end(sock, what)
            sock.close()
            del connection
        _finish(arm, producers, workers, at_most_duplicated=2 * len(producers))


def a_crowd_of_connections_that_say_nothing_stops_nobody():
    with arms.Arm() as arm, _workers(arm) as workers:
        port = pika.URLParameters(arm.workers).port
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(200)]
        producer = _publish(arm, 300)
        _wait_seen(workers, producer.confirmed)
        for sock in crowd:
            sock.close()
        _finish(arm, [producer], workers)


harness.main(globals())
