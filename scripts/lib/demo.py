"""The demo: one arrival schedule, served first by a plain FIFO queue and then through Harbinger.

Called by scripts/demo, beside a private RabbitMQ. A job's latency is the time from its publication to
the end of its handler, both read from the machine's monotonic clock.
"""
import collections
import json
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request

import pika

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "scripts/lib"))
import demo_plot  # noqa: E402

AS_JSON = "--json" in sys.argv[2:]
BY_ITSELF = "harbinger" in sys.argv[2:]  # its backend: no priority queue, the workers connect to it
URI = os.environ["HARBINGER_TEST_AMQP"]
WORKERS = 4
BULK, SHORT = ("report", 100.0, 600), ("thumbnail", 2.0, 1500)  # job_type, ms, jobs
PRELUDE_EACH = 60
SHORTS_OVER_S = 14.0
STALLED_S = 30.0
FIFO = "demo.fifo"

Job = collections.namedtuple("Job", "number at type ms")


def say(text=""):
    print(text, file=sys.stderr, flush=True)


def schedule(seed=1):
    """The bulk jobs arrive at once; the short ones at random while that backlog drains."""
    rng = random.Random(seed)
    arrivals = [(0.0, *BULK[:2]) for _ in range(BULK[2])]
    arrivals += [(rng.uniform(0.5, SHORTS_OVER_S), *SHORT[:2]) for _ in range(SHORT[2])]
    return [Job(number, *a) for number, a in enumerate(sorted(arrivals))]


def prelude():
    """Both kinds in turn: enough for each to be known."""
    return [Job(-1 - n, 0.0, *(BULK if n % 2 else SHORT)[:2]) for n in range(2 * PRELUDE_EACH)]


class Children:
    """Processes that end with us, however we end."""

    def __init__(self):
        self.all = []

    def start(self, command, **options):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        self.all.append(process)
        return process

    def stop(self, limit=20):
        """The first one at last: it serves the others."""
        for some in (self.all[1:], self.all[:1]):
            for process in some:
                process.terminate()
            for process in some:
                try:
                    process.wait(limit)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self.all.clear()


class Progress:
    """One line on standard error: rewritten in place on a terminal, else a new line every few seconds."""

    def __init__(self, name, total):
        self.name, self.total, self.tty = name, total, sys.stderr.isatty()
        self.began, self.next = time.monotonic(), 0.0

    def show(self, done, published, last=False):
        now = time.monotonic()
        if now < self.next and not last:
            return
        self.next = now + (0.1 if self.tty else 4.0)
        bar = "#" * (30 * done // self.total)
        text = (f"{self.name:<18} [{bar:<30}] {done:>4} of {self.total} done, "
                f"{published - done:>4} waiting, {now - self.began:4.1f} s")
        if self.tty:
            print("\r" + text, end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            say(text)


class Arm:
    """Publishes to `intake`, runs the workers on `work` at `uri`, and gathers their notes."""

    def __init__(self, intake, work, uri, children):
        self.intake = intake
        self.connection = pika.BlockingConnection(pika.URLParameters(URI + "?heartbeat=0"))
        self.channel = self.connection.channel()
        self.notes, write_end = os.pipe()
        for _ in range(WORKERS):
            children.start(["/usr/bin/python3", str(ROOT / "scripts/lib/demo_worker.py"), str(write_end),
                            uri, work], pass_fds=[write_end])
        os.close(write_end)
        self.tail = b""

    def publish(self, job):
        body = json.dumps({"ms": job.ms, "job": job.number}).encode()
        properties = pika.BasicProperties(headers={"job_type": job.type}, delivery_mode=2,
                                          content_type="application/json")
        sent = time.monotonic()
        self.channel.basic_publish("", self.intake, body, properties)
        return sent

    def read_notes(self, wait_s):
        """[(job number, began, ended)], possibly none after `wait_s`."""
        if not select.select([self.notes], [], [], max(0.0, wait_s))[0]:
            return []
        data = os.read(self.notes, 65536)
        if not data:
            raise RuntimeError("all workers have ended")
        *lines, self.tail = (self.tail + data).split(b"\n")
        return [(int(n), float(a), float(b)) for n, a, b in (line.split() for line in lines)]

    def run(self, jobs, label):
        """Returns {number: sent} and {number: [(began, ended), ...]}."""
        progress, sent, seen = Progress(label, len(jobs)), {}, collections.defaultdict(list)
        start = moved = time.monotonic()
        waiting = collections.deque(jobs)
        while len(seen) < len(jobs):
            now = time.monotonic()
            while waiting and start + waiting[0].at <= now:
                job = waiting.popleft()
                sent[job.number] = self.publish(job)
            due = start + waiting[0].at - time.monotonic() if waiting else 0.1
            notes = self.read_notes(min(0.1, due))
            for number, began, ended in notes:
                seen[number].append((began, ended))
                moved = ended
            if not waiting and now - moved > STALLED_S:
                break
            progress.show(len(seen), len(sent))
        for number, began, ended in self.read_notes(0.5):  # what came twice
            seen[number].append((began, ended))
        progress.show(len(seen), len(sent), last=True)
        return sent, seen

    def close(self):
        self.connection.close()
        os.close(self.notes)


class Sidecar:
    def __init__(self, children):
        self.log = ROOT / "build/demo-harbingerd.log"
        settings = {"amqp.uri": URI, "mode": "predictive", "snapshot.path": "", "instance": "demo",
                    "http.listen": "127.0.0.1:0"}
        if BY_ITSELF:
            settings.update({"backend": "harbinger", "intake.queue": FIFO, "proxy.listen": "127.0.0.1:0",
                             "rpc.listen": "", "broker.aging_threshold": "0"})  # strict, as RabbitMQ's priorities are
        command = [str(ROOT / "build/src/sidecar/harbingerd")]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        with open(self.log, "wb") as log:
            self.process = children.start(command, stdout=log, stderr=log)
        end = time.monotonic() + 20
        while "event=ready" not in self.log.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the daemon is not ready; its log:\n" + self.log.read_text(errors="replace"))
            time.sleep(0.05)
        port = self.port("http")
        self.workers = f"amqp://guest:guest@127.0.0.1:{self.port('proxy')}/%2f" if BY_ITSELF else URI
        self.status_url = f"http://127.0.0.1:{port}/status"

    def port(self, face):
        return re.search(rf"event={face}.up address=\S*:(\d+)", self.log.read_text(errors="replace")).group(1)

    def wait_learned(self, jobs):
        """The last reports may be on their way when the last job is done."""
        end = time.monotonic() + 10
        while True:
            with urllib.request.urlopen(self.status_url, timeout=5) as answer:
                learned = json.load(answer)["predictor"]["learned"]
            if learned >= jobs:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"the sidecar learned from {learned} of {jobs} jobs; see {self.log}")
            time.sleep(0.05)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def summary(jobs, sent, seen):
    latency = {j.number: 1000 * (seen[j.number][0][1] - sent[j.number]) for j in jobs if j.number in seen}
    waits = [1000 * (seen[n][0][0] - sent[n]) for n in latency]
    return {
        "mean_ms": round(sum(latency.values()) / max(1, len(latency)), 3),
        "short_p50_ms": round(percentile([latency[j.number] for j in jobs
                                          if j.type == SHORT[0] and j.number in latency], 0.5), 3),
        "p99_ms": round(percentile(latency.values(), 0.99), 3),
        "longest_wait_ms": round(max(waits, default=0.0), 3),
        "lost": len(jobs) - len(latency),
        "duplicated": sum(len(notes) - 1 for notes in seen.values()),
    }, [(sent[j.number] - min(sent.values()), latency[j.number], j.type == SHORT[0])
        for j in jobs if j.number in latency]


def run_arm(label, queues, uri, children, after_prelude=lambda jobs: None):
    arm = Arm(*queues, uri, children)
    try:
        taught = prelude()
        arm.run(taught, f"{label}: prelude")
        after_prelude(len(taught))
        jobs = schedule()
        return summary(jobs, *arm.run(jobs, label))
    finally:
        arm.close()


def fifo(children):
    with pika.BlockingConnection(pika.URLParameters(URI)) as connection:
        connection.channel().queue_declare(FIFO, durable=True)
    try:
        return run_arm("plain", (FIFO, FIFO), URI, children)
    finally:
        children.stop()


def sidecar(children):
    try:
        daemon = Sidecar(children)
        queues = (FIFO, FIFO) if BY_ITSELF else ("harbinger.intake", "harbinger.work")
        return run_arm("Harbinger", queues, daemon.workers, children, daemon.wait_learned)
    finally:
        children.stop()


ROWS = [("mean", "mean_ms"), ("short jobs, median", "short_p50_ms"), ("99 % within", "p99_ms"),
        ("longest wait", "longest_wait_ms"), ("lost", "lost"), ("duplicated", "duplicated")]


def table(results):
    """The lines of the comparison; the last column is the sidecar's share of FIFO's."""
    yield f"{'':<20}{'plain FIFO':>14}{'Harbinger':>14}{'ratio':>9}"
    for title, name in ROWS:
        before, after = results["fifo"][name], results["sidecar"][name]
        if name.endswith("_ms"):
            ratio = f"{after / before:.3f}" if before else "-"
            yield f"{title:<20}{before:>11,.1f} ms{after:>11,.1f} ms{ratio:>9}"
        else:
            yield f"{title:<20}{before:>14}{after:>14}"


def end_by_signal(number, _):
    """Once: a second one, which a terminal and our parent may both send, must not stop the cleaning up."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def main():
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, end_by_signal)
    started = time.monotonic()
    say(f"demo: {BULK[2]} '{BULK[0]}' jobs of {BULK[1]:g} ms arrive at once, then {SHORT[2]:,} "
        f"'{SHORT[0]}' jobs of {SHORT[1]:g} ms; {WORKERS} workers.\n"
        f"demo: no message has a priority. Uncounted prelude: {2 * PRELUDE_EACH} jobs in each run.\n"
        "demo: \"waiting\" counts the jobs that were sent so far and are not done.")
    children, results, points = Children(), {}, {}
    try:
        for name, arm in (("fifo", fifo), ("sidecar", sidecar)):
            results[name], points[name] = arm(children)
    finally:
        children.stop(limit=5)
    plot = ROOT / "build/demo.svg"
    plot.write_text(demo_plot.svg([("plain FIFO", points["fifo"]), ("Harbinger", points["sidecar"])]),
                    encoding="utf-8")
    out = sys.stderr if AS_JSON else sys.stdout
    print("", *table(results), "", sep="\n", file=out)
    print(f"Each job over time:     {plot}\n"
          f"The daemon's log:       {ROOT / 'build/demo-harbingerd.log'}\n"
          f"Its configuration:      {ROOT / 'config/harbinger.yaml'}\n"
          f"While harbingerd runs:  /metrics and /status at http.listen\n"
          f"Your own queue:         README.md, section \"Use it\"\n"
          f"({time.monotonic() - started:.0f} s)", file=out)
    if AS_JSON:
        print(json.dumps(results))


try:
    main()
except RuntimeError as failure:
    say(f"demo: {failure}")
    sys.exit(1)
