"""The example workers behind the daemon: what they report is learned, and orders what comes next."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import pika  # noqa: E402
from harness import Daemon, equal, wait_until  # noqa: E402

EXAMPLES = harness.ROOT / "deploy/examples"
JOBS = {"slow": 20.0, "fast": 1.0}
EACH = 60


def _teaches_the_daemon_two_kinds_of_jobs(command):
    harness.delete_topology()
    with Daemon() as daemon, harness.connect() as connection:
        channel = connection.channel()

        def publish(kind):
            channel.basic_publish("", "harbinger.intake", json.dumps({"ms": JOBS[kind]}).encode(),
                                  pika.BasicProperties(headers={"job_type": kind}, delivery_mode=2))
        worker = subprocess.Popen([*command, harness.AMQP], stdin=subprocess.DEVNULL)
        try:
            for _ in range(EACH):
                publish("slow")
                publish("fast")
            wait_until(lambda: daemon.status()["predictor"]["learned"] == 2 * EACH, 30,
                       lambda: f"{2 * EACH} learned: {daemon.status()['reports']}")
        finally:
            worker.terminate()
            equal(worker.wait(10), 0, "the worker's exit code")
        equal(daemon.status()["predictor"]["keys"], 2, "keys")
        publish("slow")
        publish("fast")
        wait_until(lambda: harness.ready_count(channel, "harbinger.work") == 2, what="both at work")
        order = [p.headers["job_type"] for _, p, _ in harness.get_all(channel, "harbinger.work")]
        equal(order, ["fast", "slow"], "order of service")


def python_worker_teaches_the_daemon():
    _teaches_the_daemon_two_kinds_of_jobs(["/usr/bin/python3", str(EXAMPLES / "python/worker.py")])


def node_worker_teaches_the_daemon():
    folder = harness.node_modules("deploy/examples/node", "node")
    _teaches_the_daemon_two_kinds_of_jobs(["/usr/bin/node", str(folder / "worker.mjs")])


def c_worker_teaches_the_daemon():
    _teaches_the_daemon_two_kinds_of_jobs([str(harness.BUILD / "deploy/examples/c/worker")])


harness.main(globals())
