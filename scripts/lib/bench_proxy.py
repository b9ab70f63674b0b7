"""AMQP workers on RabbitMQ alone, behind the republishing hop, and on the AMQP proxy, in turn on the same machine.

Called by scripts/bench, beside a private RabbitMQ. Persistent messages of 256 bytes in three levels, a publisher with
confirms (at most 1,000 unconfirmed and 1,000 in flight), 4 workers that take one message at a time: all in C, on
librabbitmq (tests/lib/flood.c). Each round runs all arms; a result is the median of the rounds, the spread is the
lowest and the highest, and a ratio is the median of each round's.

  live     as fast as it goes
  steady   500 messages a second: the latency from just before the publish to receipt
  drain    the messages are there before the workers
  memory   resident bytes for each message of 256 bytes that the daemon holds
"""
import json
import sys

from measure import broker_pid, cpu_us, median_ratio, say, spread  # first: it finds what the tests share
import arm as arms
import harness
import workers as fleet
from flood import Flood, flood

AS_JSON, QUICK = "--json" in sys.argv[1:], "--quick" in sys.argv[1:]
ROUNDS = 1 if QUICK else 5
LIVE, DRAIN, RATE, STEADY_S, HELD = (10000, 10000, 500, 3, 20000) if QUICK else (60000, 30000, 500, 8, 100000)
STATIC = {"mode": "static", "rpc.listen": "", **{f"static.k{level}": level for level in range(3)}}
INTAKE, WORK, ALONE = "harbinger.intake", "harbinger.work", "bench.alone"
ROW = ("per_s", "p50_us", "p99_us", "broker_us", "sidecar_us", "workers_us", "publisher_us")


class Alone:
    """RabbitMQ alone; with `levels` a priority queue, whose messages have them in turn."""
    intake, work = ALONE, ALONE

    def __init__(self, levels=1):
        self.levels, self.daemon, self.workers = levels, None, harness.AMQP

    def __enter__(self):
        harness.delete_queues(ALONE)
        with harness.connect() as connection:
            arguments = {"x-max-priority": self.levels - 1} if self.levels > 1 else None
            connection.channel().queue_declare(ALONE, durable=True, arguments=arguments)
        return self

    def __exit__(self, *_):
        pass

    def options(self):
        return {"priorities": self.levels} if self.levels > 1 else {}

    def start(self):
        """What follows the workers' start, where the messages wait already."""


class Hop(Alone):
    """harbingerd publishes again, into a priority queue."""
    intake, work = INTAKE, WORK

    def __init__(self):
        super().__init__()
        self.settings = {**STATIC, "backend": "rabbitmq"}

    def __enter__(self):
        harness.delete_topology()
        self.daemon = harness.Daemon(self.settings)
        return self

    def stop(self):
        self.daemon.stop()

    def start(self):
        self.daemon.start()

    def options(self):
        return {"types": 3}

    def __exit__(self, *details):
        self.daemon.__exit__(*details)


class Proxy(Hop):
    """The workers connect to harbingerd, which delivers from the intake that it holds."""

    def __init__(self, **settings):
        super().__init__()
        address = fleet.free_address()
        self.workers = f"amqp://guest:guest@{address}/%2f"
        self.settings = {**STATIC, "backend": "harbinger", "proxy.listen": address, **settings}

    def __enter__(self):
        harness.delete_topology()
        with harness.connect() as connection:
            connection.channel().queue_declare(WORK, durable=True)
        self.daemon = harness.Daemon(self.settings)
        return self


ARMS = {"alone": Alone, "alone_3": lambda: Alone(levels=3), "hop": Hop, "proxy": Proxy}
TITLES = {"alone": "RabbitMQ alone", "alone_3": "RabbitMQ alone, 3 levels", "hop": "republishing, 3 levels",
          "proxy": "proxy, 3 levels"}


def measured(arm, count, **options):
    pids = [broker_pid()] + ([arm.daemon.process.pid] if arm.daemon else [])
    result = flood(harness.AMQP, arm.intake, arm.workers, arm.work, count, cpu=pids, **arm.options(), **options)
    assert result["again"] == 0, f"{result['again']} messages came more than once"
    result["broker_us"], *sidecar = result["cpu_us"]
    result["sidecar_us"] = sidecar[0] if sidecar else 0.0
    return {name: result[name] for name in ROW}


def live(arm):
    return measured(arm, LIVE)


def steady(arm):
    return measured(arm, RATE * STEADY_S, rate=RATE)


def drain(arm):
    """The hop's daemon starts after the workers, so that nothing has been moved before the clock starts. The proxy's
    must be there before them, and holds nothing while there are none."""
    is_hop = isinstance(arm, Hop) and not isinstance(arm, Proxy)
    if isinstance(arm, Hop):
        arm.stop()
    flood(harness.AMQP, arm.intake, arm.workers, arm.work, DRAIN, only=1, **arm.options())
    if isinstance(arm, Proxy):
        arm.start()
    broker = cpu_us(broker_pid())
    with Flood(harness.AMQP, arm.intake, arm.workers, arm.work, DRAIN, publish=0) as workers:
        if is_hop:
            arm.start()
        result = workers.result()
    result["broker_us"] = (cpu_us(broker_pid()) - broker) / DRAIN
    result["sidecar_us"] = cpu_us(arm.daemon.process.pid) / DRAIN if arm.daemon else 0.0
    result["p50_us"] = result["p99_us"] = 0.0  # of how long they lay there
    return {name: result[name] for name in ROW}


def memory():
    """Bytes for each held message; with a proxy one worker has the first of them, for nothing is held for nobody."""
    settings = {**STATIC, "backend": "harbinger", "intake.channels": 32, "intake.window": HELD // 32 + 1,
                "intake.window_bytes": "1GiB", "broker.lease": "0"}
    through = arms.proxy_is_built()
    if through:
        settings["intake.per_worker"] = 65535
    with Proxy(**settings) if through else Bare(settings) as arm, harness.connect(arm.workers) as connection:
        channel = connection.channel()
        if through:
            channel.basic_qos(prefetch_count=2)  # so that twice per_worker may be held
            channel.basic_consume(arm.work, lambda *_: None)
        before = arm.daemon.memory_kib()
        flood(harness.AMQP, arm.intake, harness.AMQP, arm.work, HELD, only=1, types=3)
        harness.wait_until(lambda: arm.daemon.status()["intake"]["held"] == HELD, 120,
                           lambda: f"{HELD} held: {arm.daemon.status()['intake']}")
        return 1024 * (arm.daemon.memory_kib() - before) / HELD


class Bare(Hop):
    """The broker inside, and nobody who takes anything."""

    def __init__(self, settings):
        super().__init__()
        self.settings = settings


def with_spread(numbers):
    return "{:,.0f} [{:,.0f}-{:,.0f}]".format(*numbers)


def row(title, runs):
    """One line of a table, and its numbers."""
    numbers = {name: spread([run[name] for run in runs], 2) for name in ROW}
    text = f"  {title:<26}{with_spread(numbers['per_s']):<26}"
    text += "".join(f"{numbers[name][0]:>9.1f}" for name in ROW[3:]) + 12 * " "
    if numbers["p50_us"][0] > 0:
        text += f"  {with_spread(numbers['p50_us']):<28}{with_spread(numbers['p99_us'])}"
    return text, {name: {"median": n[0], "low": n[1], "high": n[2]} for name, n in numbers.items()}


def targets(rounds, bytes_per_message):
    """(what, the measured value, the wanted one, whether it is met)"""
    def column(subject, arm, name):
        return [run[name] for run in rounds[subject][arm]]
    out = []
    if "proxy" in rounds["live"]:
        for arm, wanted in (("alone_3", 1.5), ("hop", 2.5)):
            ratio = median_ratio(column("live", "proxy", "per_s"), column("live", arm, "per_s"))
            out.append((f"live, proxy to {TITLES[arm]}", round(ratio, 2), f">= {wanted}", ratio >= wanted))
        ratio = median_ratio(column("steady", "proxy", "p50_us"), column("steady", "alone_3", "p50_us"))
        out.append(("steady p50, proxy to RabbitMQ alone, 3 levels", round(ratio, 2), "<= 1.25", ratio <= 1.25))
    what = "bytes for each held message" + ("" if "proxy" in rounds["live"] else ", no proxy")
    return out + [(what, round(bytes_per_message), "<= 500", bytes_per_message <= 500)]


def report(rounds, held):
    out = sys.stderr if AS_JSON else sys.stdout
    results = {"rounds": ROUNDS}
    for subject, arms_of in rounds.items():
        title = {"live": f"live, {LIVE:,}", "steady": f"steady, {RATE} a second", "drain": f"drain, {DRAIN:,}"}[subject]
        print(f"\n{title:<28}{'messages/s':<26}{'broker':>9}{'sidecar':>9}{'workers':>9}{'publisher':>10} us/message",
              " p50 us" + 22 * " " + "p99 us" if subject != "drain" else "", file=out)
        results[subject] = {}
        for arm, runs in arms_of.items():
            text, results[subject][arm] = row(TITLES[arm], runs)
            print(text, file=out)
    middle, low, high = spread(held, 0)
    results["bytes_per_message"] = {"median": middle, "low": low, "high": high, "through_proxy": "proxy" in rounds["live"]}
    print(f"\nheld messages of 256 bytes: {middle:,.0f} [{low:,.0f}-{high:,.0f}] bytes each", file=out)
    print("\ntargets", file=out)
    results["targets"] = []
    for what, value, wanted, met in targets(rounds, middle):
        print(f"  {what:<48}{value:>9}  {wanted:<8} {'met' if met else 'NOT MET'}", file=out)
        results["targets"].append({"what": what, "value": value, "wanted": wanted, "met": met})
    if AS_JSON:
        print(json.dumps(results))


def main():
    names = [name for name in ARMS if name != "proxy" or arms.proxy_is_built()]
    if "proxy" not in names:
        say("this harbingerd has no proxy: the other arms alone")
    rounds = {subject: {name: [] for name in names} for subject in ("live", "steady", "drain")}
    held = []
    for number in range(ROUNDS):
        for name in names[number % len(names):] + names[:number % len(names)]:
            say(f"round {number + 1} of {ROUNDS}: {TITLES[name]}")
            with ARMS[name]() as arm:
                for subject, measure in (("live", live), ("steady", steady), ("drain", drain)):
                    rounds[subject][name].append(measure(arm))
        held.append(memory())
    report(rounds, held)


main()
