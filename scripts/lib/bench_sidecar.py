"""What the sidecar costs: CPU per message on a backlog and live, and the latency that it adds.

Called by scripts/bench, beside a private RabbitMQ. Each round measures plain RabbitMQ (publish straight
to the work queue) right beside the sidecar (publish to the intake), with the same programs. The result of
each number is the median of the rounds; the spread is the lowest and the highest.
"""
import json
import sys
import time

from measure import broker_pid, cpu_us, say, spread  # first: it finds what the tests share
import harness
from load import Load
from oracle import INTAKE, REPORTS, WORK

AS_JSON = "--json" in sys.argv[1:]
ROUNDS = 5
KEYS = 64
BACKLOG, STARTING = 60000, 10000
FAST_RATE, FAST_S = 2000, 6
LIVE_RATE, LIVE_S = 500, 6


def teach(channel):
    """So that the messages of the bench have a known key each."""
    events = [{"key": f"-/k{key}", "duration_ms": 1 + 3 * key} for key in range(KEYS) for _ in range(40)]
    channel.basic_publish(REPORTS, "", json.dumps(events).encode())


def wait_count(channel, queue, count, limit=120):
    harness.wait_until(lambda: harness.ready_count(channel, queue) >= count, limit, f"{count} messages in {queue}")


def backlog(daemon, channel):
    """The daemon forwards a full intake as fast as it can; its start is left out."""
    daemon.stop()
    Load("publish", INTAKE, BACKLOG, keys=KEYS).result()
    daemon.start()
    wait_count(channel, WORK, STARTING)
    first, began, cpu = harness.ready_count(channel, WORK), time.monotonic(), cpu_us(daemon.process.pid)
    wait_count(channel, WORK, BACKLOG)
    count, took = BACKLOG - first, time.monotonic() - began
    cpu = cpu_us(daemon.process.pid) - cpu
    channel.queue_purge(WORK)
    return {"backlog_cpu_us_per_message": cpu / count, "backlog_messages_per_s": count / took}


def stream(publish_to, rate, seconds):
    """Messages at an even rate, received from the work queue: (what the receiver saw, broker's CPU in µs)."""
    count, cpu = rate * seconds, cpu_us(broker_pid())
    with Load("consume", WORK, count, prefetch=200) as receiver, \
            Load("publish", publish_to, count, rate=rate, keys=KEYS) as sender:
        sender.result()
        return receiver.result(), (cpu_us(broker_pid()) - cpu) / count


def fast(daemon):
    plain, plain_broker = stream(WORK, FAST_RATE, FAST_S)
    cpu = cpu_us(daemon.process.pid)
    through, through_broker = stream(INTAKE, FAST_RATE, FAST_S)
    cpu = cpu_us(daemon.process.pid) - cpu
    return {"fast_plain_messages_per_s": plain["received"] / plain["seconds"],
            "fast_messages_per_s": through["received"] / through["seconds"],
            "fast_cpu_us_per_message": cpu / through["received"],
            "fast_plain_broker_cpu_us_per_message": plain_broker,
            "fast_broker_cpu_us_per_message": through_broker}


def live(daemon):
    plain, _ = stream(WORK, LIVE_RATE, LIVE_S)
    cpu = cpu_us(daemon.process.pid)
    through, _ = stream(INTAKE, LIVE_RATE, LIVE_S)
    cpu = cpu_us(daemon.process.pid) - cpu
    out = {"live_cpu_us_per_message": cpu / through["received"]}
    for at in ("p50", "p99"):
        out[f"plain_{at}_ms"] = plain[f"{at}_us"] / 1000
        out[f"sidecar_{at}_ms"] = through[f"{at}_us"] / 1000
        out[f"added_{at}_ms"] = out[f"sidecar_{at}_ms"] - out[f"plain_{at}_ms"]
    return out


def main():
    rounds = []
    with harness.Daemon() as daemon, harness.connect() as connection:
        channel = connection.channel()
        teach(channel)
        for number in range(1, ROUNDS + 1):
            say(f"round {number} of {ROUNDS}: {LIVE_RATE} messages a second, {FAST_RATE} a second, "
                f"a backlog of {BACKLOG:,}")
            rounds.append({**live(daemon), **fast(daemon), **backlog(daemon, channel)})
            teach(channel)  # the daemon was started anew
    results = {"rounds": ROUNDS, "live_rate_per_s": LIVE_RATE, "fast_rate_per_s": FAST_RATE}
    out = sys.stderr if AS_JSON else sys.stdout
    print(f"{'':<38}{'median':>12}{'lowest':>12}{'highest':>12}", file=out)
    for name in rounds[0]:
        middle, low, high = spread([one[name] for one in rounds])
        results[name], results[name + "_spread"] = middle, [low, high]
        print(f"{name:<38}{middle:>12,}{low:>12,}{high:>12,}", file=out)
    if AS_JSON:
        print(json.dumps(results))


main()
