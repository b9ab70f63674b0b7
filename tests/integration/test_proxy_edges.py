"""The AMQP proxy and peers that do not behave: garbage, silence, deafness, other protocols, no RabbitMQ."""
import os
import random
import resource
import select
import socket
import ssl
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import pika  # noqa: E402
import pika.exceptions  # noqa: E402

import harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402
from proxied import Proxied, number  # noqa: E402
from proxy import Proxy  # noqa: E402

QUEUE = "proxy.edges"
GREETING = b"AMQP\0\0\x09\x01"
ACK, DELIVER, CLOSE, CLOSE_OK = (60, 80), (60, 60), (10, 50), (10, 51)


class Raw:
    """A client that says what it likes, byte by byte."""

    def __init__(self, proxied, heartbeat=0, login=True, size=None):
        self.socket = socket.socket()
        if size is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        self.socket.connect(("127.0.0.1", proxied.port))
        self.socket.settimeout(15)
        self.bytes = b""
        if login:
            self.login(heartbeat)

    def send(self, data):
        self.socket.sendall(data)

    def frame(self, kind, channel, payload):
        self.send(struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce")

    def method(self, channel, which, arguments=b""):
        self.frame(1, channel, struct.pack(">HH", *which) + arguments)

    def next(self):
        """(type, channel, payload) of the next frame; None at the end."""
        while True:
            if len(self.bytes) >= 7:
                kind, channel, size = struct.unpack(">BHI", self.bytes[:7])
                if len(self.bytes) >= size + 8:
                    payload, self.bytes = self.bytes[7:7 + size], self.bytes[8 + size:]
                    return kind, channel, payload
            more = self.read()
            if not more:
                return None
            self.bytes += more

    def read(self):
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""

    def wait_for(self, which):
        """The arguments of the next such method, on any channel."""
        while True:
            frame = self.next()
            assert frame is not None, f"closed before {which}"
            if frame[0] == 1 and struct.unpack(">HH", frame[2][:4]) == which:
                return frame[2][4:]

    def login(self, heartbeat):
        self.send(GREETING)
        self.wait_for((10, 10))
        plain = b"\0guest\0guest"
        self.method(0, (10, 11), struct.pack(">I", 0) + b"\x05PLAIN" + struct.pack(">I", len(plain)) + plain + b"\x05en_US")
        self.wait_for((10, 30))
        self.method(0, (10, 31), struct.pack(">HIH", 2047, 131072, heartbeat))
        self.method(0, (10, 40), b"\x01/\0\0")
        self.wait_for((10, 41))

    def consume(self, prefetch, bits=0):
        name = QUEUE.encode()
        self.method(1, (20, 10), b"\0")
        self.method(1, (50, 10), b"\0\0" + bytes([len(name)]) + name + b"\x02" + struct.pack(">I", 0))
        self.method(1, (60, 10), struct.pack(">IHB", 0, prefetch, 0))
        self.method(1, (60, 20), b"\0\0" + bytes([len(name)]) + name + b"\0" + bytes([bits]) + struct.pack(">I", 0))
        self.wait_for((60, 21))

    def ack(self, tag):
        self.method(1, ACK, struct.pack(">QB", tag, 0))


def _wait_stats(proxied, **wanted):
    wait_until(lambda: all(proxied.stats()[name] == value for name, value in wanted.items()),
               what=lambda: f"{wanted}; is {proxied.stats()}")


def _works(proxied):
    """Another client is served as ever."""
    last = proxied.put(1)
    c = proxied.connect()
    ch = c.channel()
    ch.queue_declare(QUEUE, durable=True)
    got = []
    ch.basic_qos(prefetch_count=1)

    def on(channel, method, _, body):
        got.append(number(body))
        channel.basic_ack(method.delivery_tag)
    ch.basic_consume(QUEUE, on)
    wait_until(lambda: (c.process_data_events(0.01), last in got)[1])
    c.close()


def _cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fds(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


# --- garbage ------------------------------------------------------------------------------------

def who_does_not_speak_amqp_is_told_what_we_speak():
    with Proxied(work=QUEUE) as p:
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"AMQX", b"\0" * 5000):
            raw = Raw(p, login=False)
            raw.send(words)
            equal(raw.read(), GREETING)
            equal(raw.read(), b"")
            raw.socket.close()
        _wait_stats(p, connections=0, broken_clients=4, accepted=4)


def a_broken_frame_ends_its_connection_only():
    with Proxied(work=QUEUE) as p:
        p.put(1)
        raw = Raw(p)
        raw.consume(1)
        raw.wait_for(DELIVER)
        raw.send(b"\x01\x00\x01\x00\x00\x00\x01xy")
        equal(struct.unpack(">H", raw.wait_for(CLOSE)[:2])[0], 501)
        while raw.next() is not None:
            pass
        _wait_stats(p, connections=0, in_flight=0, failed=1, broken_clients=1)
        _works(p)


def random_bytes_do_no_harm():
    rng = random.Random(7)
    with Proxied(work=QUEUE) as p:
        before = _fds(p.process)
        for i in range(150):
            raw = Raw(p, login=i % 3 == 0)
            if i % 3 == 1:
                raw.send(GREETING)
            for _ in range(rng.randrange(4)):
                raw.send(rng.randbytes(rng.randrange(1, 400)))
                if rng.random() < 0.5:
                    try:
                        raw.frame(rng.choice([1, 2, 3, 8]), rng.randrange(3),
                                  struct.pack(">HH", rng.choice([10, 20, 50, 60, 90]), rng.randrange(125)) + rng.randbytes(30))
                    except OSError:
                        break
            raw.socket.close()
        _wait_stats(p, connections=0)
        equal(_fds(p.process), before)
        _works(p)


def half_a_frame_and_then_nothing_is_kept_within_bounds():
    with Proxied(work=QUEUE, max_bytes=100000) as p:
        raws = [Raw(p) for _ in range(5)]
        for raw in raws:
            raw.send(struct.pack(">BHI", 3, 1, 131000) + b"x" * 100000)
        wait_until(lambda: sum(c["held"] > 90000 for c in p.stats()["clients"]) == 5)
        _works(p)
        for raw in raws:
            raw.socket.close()
        _wait_stats(p, connections=0)


# --- limits and the handshake -------------------------------------------------------------------

def who_stays_in_the_handshake_is_dropped():
    with Proxied(work=QUEUE, handshake_ms=3000) as p:
        silent, greeted = Raw(p, login=False), Raw(p, login=False)
        greeted.send(GREETING)
        greeted.wait_for((10, 10))
        for raw in (silent, greeted):
            while raw.read():
                pass
        _wait_stats(p, connections=0, timed_out=2)
        _works(p)


def too_many_clients_are_refused():
    with Proxied(work=QUEUE, max_connections=2) as p:
        a, b, c = Raw(p), Raw(p), Raw(p, login=False)
        equal(c.read(), b"")
        equal(p.stats()["refused"], 1)
        a.socket.close()
        _wait_stats(p, connections=1)
        _works(p)
        b.socket.close()


def wrong_credentials_are_rabbitmqs_to_refuse():
    with Proxied(work=QUEUE) as p:
        try:
            p.connect(credentials=pika.PlainCredentials("nobody", "x"))
            raise AssertionError("let in")
        except pika.exceptions.ProbableAuthenticationError as error:
            assert "403" in str(error), error
        _wait_stats(p, connections=0)


def amqp_1_0_is_answered_by_rabbitmq():
    with Proxied(work=QUEUE) as p:
        raw = Raw(p, login=False)
        raw.send(b"AMQP\x00\x01\x00\x00")
        equal(raw.read(), GREETING)  # without its plugin it speaks 0-9-1 only
        equal(raw.read(), b"")
        _wait_stats(p, connections=0, broken_clients=0)


# --- RabbitMQ away ------------------------------------------------------------------------------

def without_rabbitmq_clients_are_closed():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = f"amqp://127.0.0.1:{nobody.getsockname()[1]}"
        with Proxied(work=QUEUE, upstream=away) as p:
            raw = Raw(p, login=False)
            raw.send(GREETING)
            equal(raw.read(), b"")
            _wait_stats(p, connections=0, upstream_failed=1)
        with Proxied(work=QUEUE, upstream=f"{away},amqp://no.such.host.invalid,{harness.AMQP}".replace(
                "127.0.0.1:" + str(harness.amqp_port()), f"localhost:{harness.amqp_port()}")) as p:
            _works(p)
            equal(p.stats()["upstream_failed"], 0)


def when_rabbitmq_goes_messages_are_put_back():
    with Proxy(harness.amqp_port()) as fault, Proxied(work=QUEUE, upstream=fault.uri()) as p:
        p.put(1)
        raw = Raw(p)
        raw.consume(1)
        raw.wait_for(DELIVER)
        fault("close all rst")
        while raw.next() is not None:
            pass
        _wait_stats(p, connections=0, in_flight=0, put_back=1, failed=0)


# --- life and death -----------------------------------------------------------------------------

def a_busy_client_without_heartbeats_lives():
    """Its acks are swallowed: RabbitMQ would hear nothing of it."""
    with Proxied(work=QUEUE) as p:
        raw = Raw(p, heartbeat=1)
        raw.consume(1)
        count = 0
        while p.stats()["heartbeats"] < 6:
            p.put(1)
            raw.wait_for(DELIVER)
            count += 1
            raw.ack(count)
            select.select([], [], [], 0.1)  # the pace of its work; nothing depends on it
        equal(p.stats()["acked"] >= count - 1, True)
        equal(p.stats()["connections"], 1)


def a_client_that_fell_silent_is_given_up():
    """RabbitMQ hears our heartbeats in its place, so it is the proxy that must notice."""
    with Proxied(work=QUEUE) as p:
        p.put(1)
        raw = Raw(p, heartbeat=1)
        raw.consume(1)
        _wait_stats(p, connections=0, failed=1, in_flight=0)


def a_rabbitmq_that_fell_silent_is_given_up():
    with Proxy(harness.amqp_port()) as fault, Proxied(work=QUEUE, upstream=fault.uri()) as p:
        raw = Raw(p, heartbeat=1)
        raw.consume(1)
        fault("hole all")
        raw.socket.settimeout(0.1)
        count = 0

        def gone():
            nonlocal count
            p.put(1)
            try:
                if raw.read() == b"":
                    return True
            except TimeoutError:
                pass
            count += 1
            raw.send(struct.pack(">BHI", 8, 0, 0) + b"\xce")  # alive, and says so
            return False
        wait_until(gone)
        _wait_stats(p, connections=0)


# --- who does not read --------------------------------------------------------------------------

def a_deaf_client_is_bounded_and_alone():
    with Proxied(work=QUEUE, max_bytes=200_000) as p:
        raw = Raw(p, size=4096)
        raw.consume(0, bits=2)  # no acks: nothing else bounds it
        p.put(1000, 50_000)
        wait_until(lambda: p.stats()["waiting"] < 1000)
        cpu = _cpu_seconds(p.process)
        delivered = -1
        while delivered != p.stats()["delivered"]:  # until the sockets' buffers are full
            delivered = p.stats()["delivered"]
            select.select([], [], [], 0.2)
        stats = p.stats()
        assert stats["waiting"] > 500, stats
        assert max(c["held"] for c in stats["clients"]) < 300_000, stats
        _works_beside(p)
        assert _cpu_seconds(p.process) - cpu < 3, "it spins"
        seen = 0
        while seen < 1000:  # it reads again, and all comes
            raw.wait_for(DELIVER)
            seen += 1
        _wait_stats(p, waiting=0)


def _works_beside(p):
    c = p.connect()
    ch = c.channel()
    ch.queue_declare("", exclusive=True)
    method, _, body = ch.basic_get(QUEUE, auto_ack=True)
    assert method is not None and len(body) == 50_000
    p.put(1, 10)
    c.close()


def a_blocked_rabbitmq_stops_the_publisher_alone():
    """During a memory alarm RabbitMQ does not read who publishes."""
    with Proxied(work=QUEUE, max_bytes=200_000, barrier=0) as p:
        raw = Raw(p)
        raw.consume(1)
        try:
            harness.ctl("set_vm_memory_high_watermark", "0.00001")
            publisher = Raw(p)
            publisher.method(1, (20, 10), b"\0")
            publisher.socket.settimeout(1)
            content = struct.pack(">HHQH", 60, 0, 50000, 0)
            try:
                for _ in range(2000):
                    publisher.method(1, (60, 40), b"\0\0\0\x04none\0")
                    publisher.frame(2, 1, content)
                    publisher.frame(3, 1, b"x" * 50000)
                raise AssertionError("100 MB were taken")
            except TimeoutError:
                pass
            wait_until(lambda: any(c["paused_client"] for c in p.stats()["clients"]))
            assert max(c["held"] for c in p.stats()["clients"]) < 500_000, p.stats()
            p.put(200)
            for i in range(200):
                raw.wait_for(DELIVER)
                raw.ack(i + 1)
            _wait_stats(p, acked=200)
        finally:
            harness.ctl("set_vm_memory_high_watermark", "0.4")
        wait_until(lambda: not any(c["paused_client"] for c in p.stats()["clients"]))
        publisher.socket.close()
        _wait_stats(p, connections=1)


# --- TLS ----------------------------------------------------------------------------------------

def _certificate(folder):
    certificate, key = os.path.join(folder, "certificate.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
    return certificate, key


def tls_ends_at_the_proxy_and_may_begin_again_behind_it():
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = _certificate(folder)
        context = ssl.create_default_context(cafile=certificate)
        with Proxied(work="none", certificate=certificate, key=key) as behind:
            upstream = f"amqp://localhost:{behind.port}"
            with Proxied(work=QUEUE, certificate=certificate, key=key, upstream=upstream, upstream_ca=certificate) as p:
                p.put(20, 300_000)
                c = p.connect(ssl_options=pika.SSLOptions(context, "localhost"))
                ch = c.channel()
                ch.queue_declare(QUEUE, durable=True)
                got = []
                ch.basic_consume(QUEUE, lambda *a: got.append(len(a[3])), auto_ack=True)
                wait_until(lambda: (c.process_data_events(0.01), len(got) == 20)[1])
                equal(set(got), {300_000})
                results = ch.queue_declare("", exclusive=True).method.queue
                ch.basic_publish("", results, b"r" * 1_000_000)
                wait_until(lambda: len(ch.basic_get(results, auto_ack=True)[2] or b"") == 1_000_000)
                c.close()
                plain = Raw(p, login=False)
                plain.send(GREETING)
                while plain.read():
                    pass
                _wait_stats(p, connections=0)
            other, _ = _certificate(folder + "/")
            os.rename(other, folder + "/other.pem")
            _certificate(folder)
            with Proxied(work=QUEUE, upstream=upstream, upstream_ca=certificate) as p:
                raw = Raw(p, login=False)
                raw.send(GREETING)
                equal(raw.read(), b"")  # whom it does not trust it tells nothing


def a_new_certificate_is_taken_and_a_broken_one_is_not():
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = _certificate(folder)
        with Proxied(work=QUEUE, certificate=certificate, key=key) as p:
            def connects(cafile):
                context = ssl.create_default_context(cafile=cafile)
                try:
                    p.connect(ssl_options=pika.SSLOptions(context, "localhost")).close()
                    return True
                except (pika.exceptions.AMQPConnectionError, ssl.SSLError):
                    return False
            old = folder + "/old.pem"
            os.rename(certificate, old)
            answer = p.say("reload")
            assert "certificate.pem" in answer, answer
            assert connects(old)
            _certificate(folder)
            equal(p.say("reload"), "ok")
            assert connects(certificate)
            assert not connects(old)


# --- going down ---------------------------------------------------------------------------------

def shut_lets_workers_finish():
    with Proxied(work=QUEUE) as p:
        p.put(3)
        busy, idle = Raw(p), Raw(p)
        busy.consume(1)
        busy.wait_for(DELIVER)
        idle.method(1, (20, 10), b"\0")
        idle.wait_for((20, 11))
        p.say("shut")
        equal(struct.unpack(">H", idle.wait_for(CLOSE)[:2])[0], 320)
        idle.method(0, CLOSE_OK)
        equal(idle.next(), None)
        busy.ack(1)
        equal(struct.unpack(">H", busy.wait_for(CLOSE)[:2])[0], 320)
        busy.method(0, CLOSE_OK)
        equal(busy.next(), None)
        _wait_stats(p, acked=1, waiting=2, connections=0)
        with socket.socket() as late:
            assert late.connect_ex(("127.0.0.1", p.port)) != 0


def many_consumers_share_fairly():
    with Proxied(work=QUEUE) as p:
        connections = [Raw(p) for _ in range(20)]
        for raw in connections:
            raw.consume(1)
        p.put(2000)
        counts = [0] * 20
        done = 0
        while done < 2000:
            for i, raw in enumerate(connections):
                ready, _, _ = select.select([raw.socket], [], [], 0) if not raw.bytes else ([1], 0, 0)
                if ready and done < 2000:
                    raw.wait_for(DELIVER)
                    counts[i] += 1
                    done += 1
                    raw.ack(counts[i])
        _wait_stats(p, acked=2000, in_flight=0)
        assert min(counts) > 50, counts


resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
harness.main(globals())
