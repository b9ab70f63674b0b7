"""Celery, unmodified: workers with and without events, late and early acks, results, remote control, ETA."""
import collections
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import arm as arms  # noqa: E402
import harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 30


class _Case(arms.Arm):
    """An arm, a producer's application, and workers."""

    def __init__(self, producer_through=False, daemon=None, **celery_settings):
        super().__init__(daemon, arguments={})
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="harbinger-celery."))
        self.workers_running, self.settings = [], celery_settings
        self.connection = harness.connect()
        self.channel = self.connection.channel()
        env = self._environment(self.workers if producer_through else harness.AMQP)
        env["HARBINGER_TEST_CELERY"] = "{}"
        os.environ.update(env)
        sys.path[:0] = [str(HERE)] if str(HERE) not in sys.path else []
        sys.modules.pop("celery_jobs", None)
        self.jobs = importlib.import_module("celery_jobs")
        self.app = self.jobs.app
        self.app.set_current()

    def _environment(self, broker):
        return {"HARBINGER_TEST_BROKER": broker, "HARBINGER_TEST_INTAKE": self.intake, "HARBINGER_TEST_WORK": self.work,
                "HARBINGER_TEST_NOTES": str(self.dir / "notes"), "HARBINGER_TEST_CELERY": json.dumps(self.settings)}

    def worker(self, *arguments):
        """A worker with two processes, once it is ready; returns its process."""
        number = len(self.workers_running)
        log = self.dir / f"log{number}"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                ["/usr/bin/python3", "-m", "celery", "-A", "celery_jobs", "worker", "-c", "2", "-l", "INFO",
                 "-n", f"w{number}@here", *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=HERE,
                env={**os.environ, **self._environment(self.workers)})
        self.workers_running.append(process)
        wait_until(lambda: b"ready." in log.read_bytes() or process.poll() is not None, LIMIT, "a worker that is ready")
        equal(process.poll(), None, "the worker's exit code")
        return process

    def send(self, task, *arguments, **options):
        return task.apply_async(arguments, queue=self.intake, **options)

    def notes(self, what):
        """How often which number was noted as that."""
        path = self.dir / "notes"
        lines = path.read_text(encoding="ascii").split("\n") if path.exists() else []
        return collections.Counter(int(line.split()[1]) for line in lines if line.startswith(what + " "))

    def stop(self, process, limit=LIMIT):
        process.send_signal(signal.SIGTERM)
        equal(process.wait(limit), 0, "the worker's exit code")

    def expect_left(self, count):
        wait_until(lambda: self.left(self.channel) == count, what=lambda: f"{count} left, not {self.left(self.channel)}")

    def __exit__(self, kind, *details):
        for process in self.workers_running:
            if process.poll() is None:
                process.kill()
            process.wait()
        if kind not in (None, harness.Skip):
            for log in sorted(self.dir.glob("log*")):
                print(f"# {log.name}:\n{log.read_text(errors='replace')[-4000:]}", file=sys.stderr)
        self.app.close()
        self.connection.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        super().__exit__(kind, *details)


def _runs_tasks_returns_results_and_answers(arguments, count=40, **settings):
    with _Case(**settings) as case:
        process = case.worker(*arguments)
        results = [case.send(case.jobs.double, number, 0.002) for number in range(count)]
        equal([one.get(timeout=LIMIT) for one in results], [2 * n for n in range(count)], "results")
        inspect = case.app.control.inspect(timeout=5, limit=1)
        equal(inspect.ping(), {"w0@here": {"ok": "pong"}}, "ping")
        stats = inspect.stats()["w0@here"]
        equal(stats["total"], {"double": count}, "tasks in the stats")
        equal(stats["prefetch_count"], 2 * settings["worker_prefetch_multiplier"], "prefetch")
        equal([one["name"] for one in inspect.active_queues()["w0@here"]], [case.work], "active queues")
        case.stop(process)
        equal(case.notes("done"), collections.Counter(range(count)), "each task once")
        case.expect_left(0)


def late_acks_and_events_and_a_prefetch_of_one():
    _runs_tasks_returns_results_and_answers(["-E"], task_acks_late=True, worker_prefetch_multiplier=1)


def early_acks_and_the_default_prefetch():
    _runs_tasks_returns_results_and_answers([], task_acks_late=False, worker_prefetch_multiplier=4)


def late_acks_and_a_long_prefetch():
    _runs_tasks_returns_results_and_answers([], task_acks_late=True, worker_prefetch_multiplier=4)


def early_acks_and_events_and_a_producer_through_the_same_port():
    _runs_tasks_returns_results_and_answers(["-E"], task_acks_late=False, worker_prefetch_multiplier=1,
                                            producer_through=True)


def events_of_early_acking_workers_teach_what_tasks_cost():
    """What its acks would teach is how long the task before it took."""
    rules = {"broker.order": "paper", "broker.aging_threshold": "0", "predictor.min_samples": "5",
             "predictor.global_min_samples": "20", "predictor.boundary_refresh_every": "10"}
    with _Case(daemon=rules, task_acks_late=False, worker_prefetch_multiplier=1) as case:
        process = case.worker("-E")
        for number in range(40):
            case.send(case.jobs.slow if number % 2 else case.jobs.double, number)
        wait_until(lambda: len(case.notes("done")) == 40, LIMIT, "all done")
        for number in range(100, 112):
            case.send(case.jobs.slow, number)
        for number in range(200, 212):
            case.send(case.jobs.double, number)
        wait_until(lambda: len(case.notes("done")) == 64, LIMIT, "all done")
        case.stop(process)
        order = [number for number in case.notes("done") if number >= 100]
        late = sum(number < 200 for number in order[12:])
        if arms.NAME == "proxy":
            # But for those that came before the others were there.
            assert late >= 6, f"slow tasks among the last twelve: {late} in {order}"


def more_eta_tasks_than_the_prefetch_do_not_block_the_others():
    with _Case(task_acks_late=True, worker_prefetch_multiplier=1) as case:
        process = case.worker()
        for number in range(8):
            case.send(case.jobs.double, number, countdown=3600)
        now = [case.send(case.jobs.double, number) for number in range(100, 106)]
        equal([one.get(timeout=LIMIT) for one in now], list(range(200, 212, 2)), "results of those due now")
        case.stop(process)
        equal(case.notes("begun"), collections.Counter(range(100, 106)), "begun with")
        case.expect_left(8)
        case.channel.queue_purge(case.intake)


def eta_tasks_run_when_they_are_due():
    with _Case(task_acks_late=True, worker_prefetch_multiplier=1) as case:
        process = case.worker()
        results = [case.send(case.jobs.double, number, countdown=1) for number in range(6)]
        equal([one.get(timeout=LIMIT) for one in results], list(range(0, 12, 2)), "results")
        case.stop(process)
        equal(case.notes("done"), collections.Counter(range(6)), "each task once")
        case.expect_left(0)


def a_warm_shutdown_finishes_what_runs_and_gives_back_the_rest():
    for late in (False, True):
        with _Case(task_acks_late=late, worker_prefetch_multiplier=4) as case:
            process = case.worker()
            for number in range(6):
                case.send(case.jobs.double, number, 1)
            wait_until(lambda case=case: len(case.notes("begun")) >= 2, LIMIT, "two tasks that run")
            case.stop(process)
            done = case.notes("done")
            equal(done, case.notes("begun"), "done, of those that it had begun")
            assert len(done) < 6, "none was left to give back"
            case.expect_left(6 - len(done))
            process = case.worker()
            wait_until(lambda case=case: len(case.notes("done")) == 6, LIMIT, "all done")
            case.stop(process)
            equal(case.notes("done"), collections.Counter(range(6)), "each task once")
            case.expect_left(0)


def a_killed_worker_loses_nothing_with_late_acks():
    with _Case(task_acks_late=True, worker_prefetch_multiplier=1) as case:
        process = case.worker()
        for number in range(4):
            case.send(case.jobs.double, number, 0.3)
        wait_until(lambda: len(case.notes("begun")) >= 2, LIMIT, "two tasks that run")
        process.kill()
        process.wait()
        process = case.worker()
        wait_until(lambda: set(case.notes("done")) == set(range(4)), LIMIT, "all done")
        case.expect_left(0)
        case.stop(process)


def retries_are_published_again():
    with _Case(task_acks_late=True, worker_prefetch_multiplier=1) as case:
        process = case.worker()
        results = [case.send(case.jobs.flaky, number) for number in range(5)]
        equal([one.get(timeout=LIMIT) for one in results], [2] * 5, "retries")
        equal(set(case.notes("begun").values()), {3}, "attempts")
        case.stop(process)
        case.expect_left(0)


harness.main(globals())
