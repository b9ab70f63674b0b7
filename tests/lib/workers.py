"""Workers of the harbinger backend (tests/lib/worker.c), and what they have handled."""
import collections
import pathlib
import shutil
import socket
import subprocess
import tempfile

import harness
import oracle


def free_address():
    """An address that nobody listens on, for a daemon that is started again and again."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


class Workers:
    """`count` of them, each with a log of what it has begun with. Leaves no process behind (use `with`)."""

    def __init__(self, address, count=2, **options):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="harbinger-workers."))
        self.command = self.command_for(address, **options)
        self.processes = [self._start(number) for number in range(count)]

    @staticmethod
    def command_for(address, **options):
        return [str(harness.BUILD / "tests/lib/worker"), address, *(f"{name}={value}" for name, value in options.items())]

    def _start(self, number):
        with open(self.dir / str(number), "ab") as log:
            return subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log)

    def revive(self):
        """Starts those again that have ended."""
        self.processes = [p if p.poll() is None else self._start(n) for n, p in enumerate(self.processes)]

    def lines(self):
        """[(number, digest)] of all messages that were begun with, as often as they were."""
        out = []
        for log in sorted(self.dir.iterdir()):
            for line in log.read_text(encoding="ascii").splitlines():
                fields = line.split(" ")
                if len(fields) == 2 and len(fields[1]) == 64:
                    out.append((int(fields[0]), fields[1]))
        return out

    def seen(self):
        return collections.Counter(number for number, _ in self.lines())

    def stop(self):
        """SIGTERM; each must end by itself."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            harness.equal(process.wait(20), 0, "a worker's exit code")

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


class AmqpWorkers(Workers):
    """The same on AMQP (tests/lib/amqp_worker.py): `address` is a URI."""

    @staticmethod
    def command_for(address, queue=oracle.WORK, prefetch=1, handle_ms=0):  # pylint: disable=arguments-differ
        script = pathlib.Path(__file__).with_name("amqp_worker.py")
        return ["/usr/bin/python3", str(script), address, queue, str(prefetch), str(handle_ms)]

    def _start(self, number):
        log = self.dir / str(number)
        self.begins_at = {**getattr(self, "begins_at", {}), number: log.stat().st_size if log.exists() else 0}
        return super()._start(number)

    def stop(self):
        """When all are ready: Python would not know what to do with a signal before."""
        for number in range(len(self.processes)):
            harness.wait_until(lambda n=number: b"ready" in (self.dir / str(n)).read_bytes()[self.begins_at[n]:],
                               what="a worker that is ready")
        super().stop()


def _unsettled():
    """Messages of the intake, with those that were delivered and not acked: they may still be on the wire."""
    for line in harness.ctl("list_queues", "name", "messages").splitlines():
        if line.startswith(oracle.INTAKE + "\t"):
            return int(line.split("\t")[1])
    return 0


def wait_handled(daemon, limit=60):
    """Until the intake has nothing, nothing is held, and nothing is on its way to the parked queue."""
    def idle():
        if oracle.queue_ready(oracle.INTAKE) != 0:
            return False
        status = daemon.status()
        if status["intake"].get("held", 1) != 0 or status["broker"]["in_flight"] != 0:
            return False
        return _unsettled() == 0  # the slow question last
    harness.wait_until(idle, limit, lambda: f"all handled: {daemon.status()['intake']} {daemon.status()['broker']}")


def judge(producers, workers, at_most_duplicated=0, at_least_duplicated=0, elsewhere=()):
    """The oracle's verdict over what the workers have begun with; `elsewhere`: numbers that came out otherwise."""
    confirmed = set().union(*(p.confirmed for p in producers))
    bodies = {n: d for p in producers for n, d in p.body_digests.items()}
    lines = workers.lines()
    seen = collections.Counter(number for number, _ in lines)
    lost = confirmed - set(seen) - set(elsewhere)
    duplicated = sum(count - 1 for count in seen.values())
    assert confirmed, "nothing was confirmed"
    assert not lost, f"lost: {len(lost)} of {len(confirmed)}: {sorted(lost)[:10]}"
    assert set(seen) <= set(bodies), f"unexpected: {sorted(set(seen) - set(bodies))[:10]}"
    changed = {n for n, digest in lines if bodies[n] != digest}
    assert not changed, f"changed: {sorted(changed)[:10]}"
    assert at_least_duplicated <= duplicated <= at_most_duplicated, \
        f"duplicated: {duplicated}, wanted {at_least_duplicated} to {at_most_duplicated}"
    print(f"# confirmed {len(confirmed)}, lost 0, duplicated {duplicated}", flush=True)
