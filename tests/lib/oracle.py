"""What must come out when numbered messages go in: the producer, the tally, and the verdict.

Words: *confirmed* (the intake took responsibility), *lost* (confirmed and never seen), *duplicated* (each
copy beyond the first), *unexpected* (never published), *changed* (another body, header or property than
was published, after undoing what the sidecar is meant to change).
"""
import collections
import hashlib
import random
import threading

import pika
import pika.data

import harness

INTAKE, WORK, PARKED, REPORTS = "harbinger.intake", "harbinger.work", "harbinger.parked", "harbinger.reports"
PREFIX = "x-harbinger-"
PLAIN_PROPERTIES = ("content_type", "content_encoding", "delivery_mode", "correlation_id", "reply_to",
                    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id")


def message(number, rng):
    """Some message with that number: bodies from nothing to a few KiB, all kinds of headers."""
    headers = {"job_type": f"type{number % 7}", "n": number, "big": 2 ** 40 + number, "flag": number % 2 == 0,
               "none": None, "text": "smørrebrød", "list": [1, "two", [3]], "deep": {"a": {"b": [True, None]}}}
    some = {name: headers[name] for name in rng.sample(sorted(headers), rng.randrange(len(headers) + 1))}
    properties = pika.BasicProperties(delivery_mode=2, headers=some or None)
    if number % 3 == 0:
        properties.user_id, properties.priority = "guest", number % 10
    if number % 4 == 0:
        properties.content_type, properties.correlation_id = "application/x", f"c{number}"
    if number % 5 == 0:
        properties.type, properties.app_id, properties.message_id = "t", "app", f"m{number}"
        properties.timestamp, properties.reply_to = 1700000000 + number, "reply"
    return b"%d %s" % (number, rng.randbytes(rng.choice((0, 10, 250, 3000)))), properties


def _as_sent(headers):
    """Headers as the other end decodes them."""
    pieces = []
    pika.data.encode_table(pieces, headers or {})
    return pika.data.decode_table(b"".join(pieces), 0)[0]


def digest(body, properties):
    """A hash over all that must arrive unchanged; undoes what the sidecar changes on purpose."""
    headers = dict(properties.headers or {})
    user_id = headers.get(PREFIX + "user-id", properties.user_id)
    if PREFIX + "cc" in headers:
        headers["CC"] = headers[PREFIX + "cc"]
    kept = [(name, value) for name, value in headers.items() if not name.startswith(PREFIX)]
    plain = [(name, user_id if name == "user_id" else getattr(properties, name)) for name in PLAIN_PROPERTIES]
    return hashlib.sha256(body + repr((kept, plain)).encode()).digest()


class Producer(threading.Thread):
    """Publishes numbers first..first+count-1 with confirms, many at a time; goes on after a lost connection.

    What was neither confirmed nor refused when the connection went is `uncertain`: it may come or not.
    """
    WINDOW = 500

    def __init__(self, count, first=0, exchange="", key=INTAKE, uri=None, seed=1):
        super().__init__(daemon=True)
        self.numbers = collections.deque(range(first, first + count))
        self.exchange, self.key, self.uri = exchange, key, uri or harness.AMQP
        self.rng = random.Random(seed * 1000003 + first)
        self.digests, self.confirmed, self.uncertain, self.returned = {}, set(), set(), set()
        self.body_digests = {}  # of the body alone
        self.pending, self.tag, self.stopping = {}, 0, False
        self.channel = self.connection = None
        self.start()

    def run(self):
        while self.numbers:
            parameters = pika.URLParameters(self.uri)
            parameters.heartbeat, parameters.connection_attempts = 0, 1
            self.connection = pika.SelectConnection(
                parameters, on_open_callback=lambda c: c.channel(on_open_callback=self._opened),
                on_open_error_callback=self._failed, on_close_callback=self._closed)
            self.connection.ioloop.start()

    def _failed(self, connection, _error):
        connection.ioloop.call_later(0.2, connection.ioloop.stop)

    def _closed(self, connection, _error):
        self.uncertain.update(self.pending.values())
        self.pending.clear()
        connection.ioloop.stop()

    def _opened(self, channel):
        self.channel, self.tag = channel, 0
        channel.add_on_return_callback(lambda _c, _m, _p, body: self.returned.add(number_of(body)))
        channel.confirm_delivery(self._settled, callback=lambda _: self._pump())

    def _settled(self, frame):
        tag = frame.method.delivery_tag
        tags = [t for t in self.pending if t <= tag] if frame.method.multiple else [tag]
        for one in tags:
            number = self.pending.pop(one)
            if frame.method.NAME.endswith("Ack") and number not in self.returned:
                self.confirmed.add(number)
        self._pump()

    def stop(self):
        """Publishes no more; what it has not come to was never published."""
        self.stopping = True
        return self

    def _pump(self):
        if self.stopping:
            self.numbers.clear()
        while self.numbers and len(self.pending) < self.WINDOW:
            number = self.numbers.popleft()
            body, properties = message(number, self.rng)
            sent = pika.BasicProperties(**{**vars(properties), "headers": _as_sent(properties.headers)})
            self.digests[number] = digest(body, sent)
            self.body_digests[number] = hashlib.sha256(body).hexdigest()
            self.tag += 1
            self.pending[self.tag] = number
            self.channel.basic_publish(self.exchange, self.key, body, properties, mandatory=True)
        if not self.numbers and not self.pending and self.connection.is_open:
            self.connection.close()

    def done(self, limit=60):
        self.join(limit)
        assert not self.is_alive(), f"the producer hangs with {len(self.pending)} unconfirmed"
        return self


def publish(count, first=0, **options):
    """Publishes and waits for the confirms of all."""
    producer = Producer(count, first, **options).done()
    harness.equal(len(producer.confirmed), count, "confirmed")
    return producer


def number_of(body):
    return int(body.split(b" ", 1)[0])


class Tally:
    """What came out."""

    def __init__(self):
        self.seen = collections.Counter()
        self.digests = collections.defaultdict(set)
        self.redelivered = 0
        self.levels, self.reasons = collections.Counter(), collections.Counter()

    def take(self, method, properties, body):
        number = number_of(body)
        self.seen[number] += 1
        self.redelivered += method.redelivered
        self.digests[number].add(digest(body, properties))
        headers = properties.headers or {}
        self.levels[headers.get(PREFIX + "level")] += 1
        self.reasons[headers.get(PREFIX + "parked-reason")] += 1

    def drain(self, queue=WORK):
        """Takes all that is there; a pause of the broker is not taken for the end."""
        with harness.connect() as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=500)
            while harness.ready_count(channel, queue):
                for method, properties, body in channel.consume(queue, inactivity_timeout=0.5):
                    if method is None:
                        break
                    self.take(method, properties, body)
                    channel.basic_ack(method.delivery_tag)
                channel.cancel()
        return self


class Verdict:
    def __init__(self, producers, tally):
        confirmed = set().union(*(p.confirmed for p in producers))
        digests = {n: d for p in producers for n, d in p.digests.items()}
        self.lost = confirmed - set(tally.seen)
        self.duplicated = sum(count - 1 for count in tally.seen.values())
        self.unexpected = {n for n in tally.seen if n not in digests}
        self.changed = {n for n in tally.seen if n in digests and tally.digests[n] != {digests[n]}}
        self.confirmed = len(confirmed)

    def expect(self, at_most_duplicated=0, at_least_duplicated=0):
        assert self.confirmed > 0, "nothing was confirmed"
        assert not self.lost, f"lost: {len(self.lost)} of {self.confirmed}: {sorted(self.lost)[:10]}"
        assert not self.unexpected, f"unexpected: {sorted(self.unexpected)[:10]}"
        assert not self.changed, f"changed: {len(self.changed)}: {sorted(self.changed)[:10]}"
        assert at_least_duplicated <= self.duplicated <= at_most_duplicated, \
            f"duplicated: {self.duplicated}, wanted {at_least_duplicated} to {at_most_duplicated}"
        print(f"# confirmed {self.confirmed}, lost 0, duplicated {self.duplicated}", flush=True)


def queue_ready(queue):
    with harness.connect() as connection:
        return harness.ready_count(connection.channel(), queue)


def wait_forwarded(daemon, limit=60):
    """Until the intake is empty and the daemon holds nothing."""
    def idle():
        return queue_ready(INTAKE) == 0 and daemon.status()["intake"].get("held", 1) == 0
    harness.wait_until(idle, limit, lambda: f"an empty intake; status {daemon.status()}")


def settle(daemon, producers, **bounds):
    """Waits for the end of forwarding, drains the work queue and judges."""
    wait_forwarded(daemon)
    tally = Tally().drain()
    Verdict(producers, tally).expect(**bounds)
    return tally
