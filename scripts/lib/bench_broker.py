"""Messages per second through Harbinger's gRPC face, Redis and RabbitMQ, in turn on the same machine.

Called by scripts/bench, beside a private RabbitMQ. 4 producers and 4 consumers, which hold one message at a
time, are processes of their own (tests/bench/bench_rpc.c); so is each server. Each round runs all kinds; the
result of each number is the median of the rounds, the spread is the lowest and the highest. CPU time is per message, of the server
and of all producers and all consumers together.
"""
import json
import shutil
import socket
import subprocess
import sys
import tempfile

from measure import broker_pid, cpu_us, median_ratio, say, spread  # first: it finds what the tests share
import harness
import rpc

AS_JSON = "--json" in sys.argv[1:]
ROUNDS = 9
COUNTS = {"unary": 20000, "redis": 20000, "redis_together": 20000, "stream": 40000, "redis_pipelined": 40000,
          "rabbit": 8000}
NAMES = {"stream": "Harbinger, streams", "unary": "Harbinger, unary", "redis": "Redis",
         "redis_together": "Redis, LREM with BLMOVE", "redis_pipelined": "Redis, pipelined", "rabbit": "RabbitMQ"}
# Who asks for how much at once, so that nobody compares what is not the same.
NOTES = """\
Harbinger's unary consumer sends Ack with the next Pull in one write; producers wait for each answer.
Redis waits for LREM's answer, then asks BLMOVE; "LREM with BLMOVE" sends both in one write, as the consumer above does.
Streams and "Redis, pipelined" have up to 1,000 submissions on the way, and settle with the next delivery."""
CLIENT = harness.BUILD / "tests/bench/bench-rpc"


class Redis:
    """A redis-server of our own that keeps nothing on disk."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="harbinger-redis.")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", self.dir], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        harness.wait_until(self.answers, what="redis-server")

    def answers(self):
        done = subprocess.run(["redis-cli", "-p", str(self.port), "ping"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
        return done.stdout == b"PONG\n"

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir)


def measure(kind, server, pid):
    before = cpu_us(pid)
    done = subprocess.run([CLIENT, kind, server, str(COUNTS[kind])], stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    return {"per_s": result["messages"] / result["seconds"], "server_us": (cpu_us(pid) - before) / result["messages"],
            "producers_us": result["producers_us"], "consumers_us": result["consumers_us"]}


def main():
    redis, rounds = Redis(), {kind: [] for kind in COUNTS}
    try:
        with rpc.Server() as server:
            servers = {"stream": (server.address, server.process.pid), "unary": (server.address, server.process.pid),
                       "redis": (f"127.0.0.1:{redis.port}", redis.process.pid), "rabbit": (harness.AMQP, broker_pid())}
            servers["redis_pipelined"] = servers["redis_together"] = servers["redis"]
            for number in range(ROUNDS):
                for kind in list(COUNTS)[number % len(COUNTS):] + list(COUNTS)[:number % len(COUNTS)]:
                    say(f"round {number + 1} of {ROUNDS}: {NAMES[kind]}")
                    rounds[kind].append(measure(kind, *servers[kind]))
    finally:
        redis.stop()
    report(rounds)


def report(rounds):
    result = {}
    print(f"{'submit, pull and ack':24}{'messages/s':>11}{'low':>8}{'high':>8}{'server us':>11}{'producers':>11}"
          f"{'consumers':>11}{'to Redis':>10}{'one write':>11}")
    for kind, runs in rounds.items():
        rates = [run["per_s"] for run in runs]
        row = dict(zip(("per_s", "low", "high"), spread(rates)))
        for peer in ("redis", "redis_together"):
            row["to_" + peer] = median_ratio(rates, [run["per_s"] for run in rounds[peer]])
        for part in ("server_us", "producers_us", "consumers_us"):
            row[part] = spread([run[part] for run in runs])[0]
        result[kind] = {name: round(value, 3) for name, value in row.items()}
        print(f"{NAMES[kind]:24}{row['per_s']:11,.0f}{row['low']:8,.0f}{row['high']:8,.0f}{row['server_us']:11.1f}"
              f"{row['producers_us']:11.1f}{row['consumers_us']:11.1f}{row['to_redis']:10.2f}"
              f"{row['to_redis_together']:11.2f}")
    print(NOTES)
    if AS_JSON:
        print(json.dumps({"grpc": result}))


if __name__ == "__main__":
    main()
