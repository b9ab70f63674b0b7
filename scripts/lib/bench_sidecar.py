"""What the sidecar costs: CPU per message on a backlog and live, and the latency that it adds.

Called by scripts/bench, beside a private RabbitMQ. Latency is from publication to receipt by a consumer,
through the sidecar and through a plain queue, in turn; the difference is what the hop adds.
"""
import json
import multiprocessing
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))
import harness  # noqa: E402
import oracle  # noqa: E402
import pika  # noqa: E402

AS_JSON = "--json" in sys.argv[1:]
BACKLOG, WARM = 40000, 5000
LIVE_RATE, LIVE_S = 500, 10
BODY = bytes(256)
PLAIN = "bench.plain"


def say(text):
    print("bench:", text, file=sys.stderr, flush=True)


def cpu_ns(daemon):
    return int(pathlib.Path(f"/proc/{daemon.process.pid}/schedstat").read_text(encoding="ascii").split()[0])


class Load(oracle.Producer):
    """Like the oracle's producer, with one plain kind of message."""

    def _pump(self):
        properties = pika.BasicProperties(delivery_mode=2, headers={"job_type": "bench"})
        while self.numbers and len(self.pending) < self.WINDOW:
            self.tag += 1
            self.pending[self.tag] = self.numbers.popleft()
            self.channel.basic_publish("", self.key, BODY, properties)
        if not self.numbers and not self.pending and self.connection.is_open:
            self.connection.close()


def backlog():
    """(CPU in µs per message, messages a second) of forwarding a full intake."""
    with harness.Daemon() as daemon:
        Load(WARM).done()
        oracle.wait_forwarded(daemon)
        daemon.stop()
        say(f"filling the intake with {BACKLOG:,} messages")
        Load(BACKLOG).done(300)
        daemon.start()
        started, cpu = time.monotonic(), cpu_ns(daemon)
        already = daemon.status()["intake"]["acked"]
        harness.wait_until(lambda: daemon.status()["intake"]["acked"] >= BACKLOG, 120, "the backlog forwarded")
        took, cpu = time.monotonic() - started, cpu_ns(daemon) - cpu
        return cpu / 1000 / (BACKLOG - already), (BACKLOG - already) / took


def consume(queue, count, results):
    """In a process of its own: receives `count` messages, sends their latencies in ms."""
    latencies = []
    with harness.connect() as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        results.send("ready")
        for method, _, body in channel.consume(queue, inactivity_timeout=10):
            if method is None:
                break
            latencies.append((time.monotonic_ns() - int(body)) / 1e6)
            channel.basic_ack(method.delivery_tag)
            if len(latencies) == count:
                break
    results.send(latencies)


def latency(publish_to, consume_from):
    """Sorted latencies at LIVE_RATE messages a second."""
    count = LIVE_RATE * LIVE_S
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=consume, args=(consume_from, count, theirs))
    process.start()
    ours.recv()
    properties = pika.BasicProperties(delivery_mode=2, headers={"job_type": "bench"})
    with harness.connect() as connection:
        channel = connection.channel()
        start = time.monotonic()
        for n in range(count):
            wait = start + n / LIVE_RATE - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            channel.basic_publish("", publish_to, str(time.monotonic_ns()).encode().ljust(256), properties)
        latencies = ours.recv()
    process.join()
    return sorted(latencies)


def live():
    with harness.Daemon() as daemon, harness.connect() as connection:
        channel = connection.channel()
        channel.queue_purge("harbinger.work")
        channel.queue_declare(PLAIN, durable=True)
        say(f"{LIVE_RATE} messages a second for {LIVE_S} s through a plain queue")
        plain = latency(PLAIN, PLAIN)
        say(f"{LIVE_RATE} messages a second for {LIVE_S} s through the sidecar")
        cpu = cpu_ns(daemon)
        through = latency("harbinger.intake", "harbinger.work")
        cpu = (cpu_ns(daemon) - cpu) / 1000 / len(through)
        return cpu, plain, through


def at(latencies, share):
    return latencies[min(len(latencies) - 1, int(share * len(latencies)))]


def main():
    backlog_us, rate = backlog()
    live_us, plain, through = live()
    results = {
        "backlog_cpu_us_per_message": round(backlog_us, 3), "backlog_messages_per_s": round(rate),
        "live_rate_per_s": LIVE_RATE, "live_cpu_us_per_message": round(live_us, 3),
        "plain_p50_ms": round(at(plain, 0.5), 3), "plain_p99_ms": round(at(plain, 0.99), 3),
        "sidecar_p50_ms": round(at(through, 0.5), 3), "sidecar_p99_ms": round(at(through, 0.99), 3),
        "added_p50_ms": round(at(through, 0.5) - at(plain, 0.5), 3),
        "added_p99_ms": round(at(through, 0.99) - at(plain, 0.99), 3),
    }
    for name, value in results.items():
        print(f"{name:<28}{value:>12,}", file=sys.stderr if AS_JSON else sys.stdout)
    if AS_JSON:
        print(json.dumps(results))


main()
