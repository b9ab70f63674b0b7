"""Messages per second through Harbinger's gRPC face, Redis and RabbitMQ, in turn on the same machine.

Called by scripts/bench, beside a private RabbitMQ. 4 producers and 4 consumers, which hold one message at a
time, are processes of their own (tests/bench/bench_rpc.c); so is each server. Each round runs all kinds; the
result of each number is the median of the rounds, the spread is the lowest and the highest.
"""
import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))
import harness  # noqa: E402
import rpc  # noqa: E402

AS_JSON = "--json" in sys.argv[1:]
ROUNDS = 5
COUNTS = {"stream": 80000, "unary": 24000, "redis": 24000, "redis_pipelined": 80000, "rabbit": 24000}
NAMES = {"stream": "Harbinger, streams", "unary": "Harbinger, unary", "redis": "Redis", "redis_pipelined": "Redis, pipelined",
         "rabbit": "RabbitMQ"}
CLIENT = harness.BUILD / "tests/bench/bench-rpc"


def say(text):
    print("bench:", text, file=sys.stderr, flush=True)


def cpu_us(pid):
    """CPU time that a process has used, all its threads."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1000


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
    return {"per_s": result["messages"] / result["seconds"], "client_us": result["client_us"],
            "server_us": (cpu_us(pid) - before) / result["messages"]}


def main():
    broker_pid = int((pathlib.Path(harness.NODE_DIR) / "broker.pid").read_text(encoding="ascii"))
    redis, rounds = Redis(), {kind: [] for kind in COUNTS}
    try:
        with rpc.Server() as server:
            servers = {"stream": (server.address, server.process.pid), "unary": (server.address, server.process.pid),
                       "redis": (f"127.0.0.1:{redis.port}", redis.process.pid), "rabbit": (harness.AMQP, broker_pid)}
            servers["redis_pipelined"] = servers["redis"]
            for number in range(ROUNDS):
                for kind in list(COUNTS)[number % len(COUNTS):] + list(COUNTS)[:number % len(COUNTS)]:
                    say(f"round {number + 1} of {ROUNDS}: {NAMES[kind]}")
                    rounds[kind].append(measure(kind, *servers[kind]))
    finally:
        redis.stop()
    report(rounds)


def report(rounds):
    result = {}
    print(f"{'submit, pull and ack':24}{'messages/s':>12}{'low':>9}{'high':>9}{'server us':>11}{'clients us':>12}"
          f"{'to Redis':>10}")
    for kind, runs in rounds.items():
        rates = [run["per_s"] for run in runs]
        ratio = statistics.median(run["per_s"] / peer["per_s"] for run, peer in zip(runs, rounds["redis"]))
        row = {"per_s": statistics.median(rates), "low": min(rates), "high": max(rates), "to_redis": ratio,
               "server_us": statistics.median(run["server_us"] for run in runs),
               "client_us": statistics.median(run["client_us"] for run in runs)}
        result[kind] = {name: round(value, 3) for name, value in row.items()}
        print(f"{NAMES[kind]:24}{row['per_s']:12,.0f}{row['low']:9,.0f}{row['high']:9,.0f}{row['server_us']:11.1f}"
              f"{row['client_us']:12.1f}{ratio:10.2f}")
    if AS_JSON:
        print(json.dumps({"grpc": result}))


if __name__ == "__main__":
    main()
