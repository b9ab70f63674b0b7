"""The example workers beside a plain queue: without the sidecar they are ordinary workers."""
import json
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402
import pika  # noqa: E402

EXAMPLES = harness.ROOT / "deploy/examples"
QUEUE, REPORTS, DEAD = "jobs", "harbinger.reports", "dead"


def _python():
    return ["/usr/bin/python3", str(EXAMPLES / "python/worker.py")]


def _node():
    return ["/usr/bin/node", str(harness.node_modules("deploy/examples/node", "node") / "worker.mjs")]


def _c():
    return [str(harness.BUILD / "deploy/examples/c/worker")]


class _Case:
    """A fresh queue with a dead-letter queue, the reports exchange, and one worker process."""

    def __init__(self, command):
        self.connection = harness.connect()
        self.channel = self.connection.channel()
        for queue in (QUEUE, REPORTS, DEAD):
            self.channel.queue_delete(queue)
        self.channel.queue_declare(DEAD, durable=True)
        self.channel.queue_declare(QUEUE, durable=True, arguments={
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD})
        self.channel.exchange_declare(REPORTS, "fanout", durable=True)
        self.channel.queue_declare(REPORTS, durable=True)
        self.channel.queue_bind(REPORTS, REPORTS)
        self.command = command
        self.process = None

    def publish(self, body, number=None):
        headers = {"job_type": "t"}
        if number is not None:
            headers.update({"x-harbinger-id": f"t-{number:x}", "x-harbinger-key": f"-/t{number}"})
        self.channel.basic_publish("", QUEUE, body, pika.BasicProperties(headers=headers, delivery_mode=2))

    def start(self):
        self.process = subprocess.Popen([*self.command, harness.AMQP, QUEUE], stdin=subprocess.DEVNULL)

    def ready(self, queue):
        return harness.ready_count(self.channel, queue)

    def reports(self, count):
        wait_until(lambda: self.ready(REPORTS) >= count, what=f"{count} reports")
        return harness.get_all(self.channel, REPORTS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
        self.connection.close()


def _fields(properties, body):
    """A report's four fields, from either form: a JSON body, or headers with an empty body."""
    return json.loads(body) if body else properties.headers


def _reports_each_job_once_and_only_those_that_passed_the_sidecar(command):
    with _Case(command) as case:
        times = [30.5, 0, 12.5]
        for number, ms in enumerate(times):
            case.publish(json.dumps({"ms": ms}).encode(), number)
        case.publish(b'{"ms": 1}')
        case.publish(b'{"ms": 1}', 99)
        case.start()
        reports = case.reports(4)
        equal(len(reports), 4, "reports")
        for number, (method, properties, body) in enumerate(reports[:3]):
            fields = _fields(properties, body)
            equal(set(fields), {"id", "key", "duration_ms", "outcome"}, "fields")
            equal(fields["id"], f"t-{number:x}", "id")
            equal(fields["key"], f"-/t{number}", "key")
            equal(fields["outcome"], "ok", "outcome")
            # Node's timers drop the fraction and count from a clock that is up to a millisecond old;
            # pika reads a double header as an integer.
            assert times[number] - 2 <= fields["duration_ms"] < times[number] + 100, fields
            assert properties.delivery_mode != 2, "reports are transient"
            equal((method.exchange, method.routing_key), (REPORTS, ""), "published to")
        wait_until(lambda: case.ready(QUEUE) == 0, what="an empty queue")
        case.process.send_signal(signal.SIGTERM)
        equal(case.process.wait(10), 0, "exit code")
        equal((case.ready(QUEUE), case.ready(REPORTS), case.ready(DEAD)), (0, 0, 0), "left over")


def _dead_letters_what_fails_and_reports_an_error(command):
    with _Case(command) as case:
        case.publish(b"no job", 1)
        case.publish(b'{"ms": 1}', 2)
        case.start()
        outcomes = [_fields(p, b)["outcome"] for _, p, b in case.reports(2)]
        equal(outcomes, ["error", "ok"], "outcomes")
        wait_until(lambda: case.ready(DEAD) == 1, what="the bad job among the dead letters")


def _holds_one_job_on_two_connections_and_finishes_it_at_sigterm(command):
    with _Case(command) as case:
        case.start()

        def links():  # before there is work: rabbitmqctl may take longer than a job
            rows = harness.ctl("list_connections", "pid", "channels").splitlines()
            return len([row for row in rows if row.endswith("\t1")])
        wait_until(lambda: links() == 3, what="the worker's two connections and ours")
        for number in range(3):
            case.publish(b'{"ms": 1500}', number)
        wait_until(lambda: case.ready(QUEUE) == 2, what="one job taken, two left (prefetch 1)")
        case.process.send_signal(signal.SIGTERM)
        equal(case.process.wait(10), 0, "exit code")
        equal(_fields(*case.reports(1)[0][1:])["id"], "t-0", "the finished job")
        wait_until(lambda: case.ready(QUEUE) == 2, what=lambda: f"2 in the queue: {case.ready(QUEUE)}")
        equal(case.ready(DEAD), 0, "dead letters")


def python_worker_reports_each_job_once():
    _reports_each_job_once_and_only_those_that_passed_the_sidecar(_python())


def node_worker_reports_each_job_once():
    _reports_each_job_once_and_only_those_that_passed_the_sidecar(_node())


def c_worker_reports_each_job_once():
    _reports_each_job_once_and_only_those_that_passed_the_sidecar(_c())


def python_worker_dead_letters_what_fails():
    _dead_letters_what_fails_and_reports_an_error(_python())


def node_worker_dead_letters_what_fails():
    _dead_letters_what_fails_and_reports_an_error(_node())


def c_worker_dead_letters_what_fails():
    _dead_letters_what_fails_and_reports_an_error(_c())


def python_worker_finishes_its_job_at_sigterm():
    _holds_one_job_on_two_connections_and_finishes_it_at_sigterm(_python())


def node_worker_finishes_its_job_at_sigterm():
    _holds_one_job_on_two_connections_and_finishes_it_at_sigterm(_node())


def c_worker_finishes_its_job_at_sigterm():
    _holds_one_job_on_two_connections_and_finishes_it_at_sigterm(_c())


harness.main(globals())
