"""Where unmodified clients are tried: on RabbitMQ alone ("direct"), or through harbingerd's AMQP proxy ("proxy").

A test says nothing about the arm that it runs in: it publishes to `arm.intake`, its workers connect to
`arm.workers` and take from `arm.work`. What holds on RabbitMQ alone must hold through the proxy. The arm is
chosen by HARBINGER_TEST_ARM. `arm.py COMMAND...` runs a program that is not in Python: it finds
HARBINGER_TEST_WORKERS (a URI for workers), HARBINGER_TEST_AMQP (RabbitMQ's), HARBINGER_TEST_INTAKE and
HARBINGER_TEST_WORK (names of queues), and its exit code is ours.
"""
import os
import re
import socket
import subprocess
import sys

import harness
import workers as fleet

NAME = os.environ.get("HARBINGER_TEST_ARM", "direct")
DEAD = "clients.dead"
# As RabbitMQ does: in order of arrival, as often as it takes.
SETTINGS = {"backend": "harbinger", "rpc.listen": "", "broker.order": "fifo", "broker.max_attempts": 1000,
            "broker.lease": "0", "intake.idle_after": "0"}


def proxy_is_built():
    if not harness.DAEMON.exists():
        return False
    done = subprocess.run([str(harness.DAEMON), "--print-defaults"], stdout=subprocess.PIPE, text=True, check=False)
    return re.search(r"^proxy:", done.stdout, re.M) is not None


class Arm:
    """An arm with empty queues. Leaves no process behind (use `with`)."""

    def __init__(self, settings=None, daemon_uri=None, arguments=None):
        """`settings` of the daemon and the URI of its RabbitMQ; `arguments` of the queue that is published to, instead of
        a dead-letter queue's."""
        self.name, self.daemon = NAME, None
        self.intake = "clients.jobs" if NAME == "direct" else "harbinger.intake"
        self.work = "clients.jobs" if NAME == "direct" else "harbinger.work"
        self.workers = harness.AMQP
        if NAME == "proxy" and not proxy_is_built():
            raise harness.Skip("this harbingerd has no proxy")
        self._declare(arguments)
        if NAME == "proxy":
            self.address = fleet.free_address()
            self.workers = f"amqp://guest:guest@{self.address}/%2f"
            self.daemon = harness.Daemon({**SETTINGS, "proxy.listen": self.address, **(settings or {})},
                                         uri=daemon_uri)
            self.wait_ready()

    def _declare(self, arguments):
        harness.delete_topology()
        harness.delete_queues(self.intake, self.work, DEAD)
        with harness.connect() as connection:
            channel = connection.channel()
            channel.queue_declare(DEAD, durable=True)
            if arguments is None:
                arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
            channel.queue_declare(self.intake, durable=True, arguments=arguments)
            if self.work != self.intake:
                channel.queue_declare(self.work, durable=True)

    def wait_ready(self):
        """Until workers can connect."""
        if self.daemon is not None:
            harness.wait_until(self._listens, 30, "a proxy that listens")

    def _listens(self):
        host, port = self.address.rsplit(":", 1)
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def left(self, channel):
        """How many messages are not settled. Direct: of those that no worker has (`channel` is any to RabbitMQ)."""
        count = harness.ready_count(channel, self.intake)
        if self.daemon is not None:
            count += self.daemon.status()["intake"].get("held", 0) + harness.ready_count(channel, self.work)
        return count

    def could_deliver(self, channel):
        """Whether a worker that takes no more would get some if it did (confirms say so on RabbitMQ alone).

        The daemon holds messages only in proportion to the workers that it has, and only once they are there.
        """
        if self.daemon is None or harness.ready_count(channel, self.intake) == 0:
            return True
        return self.daemon.status().get("broker", {"waiting": 0})["waiting"] > 0

    def __enter__(self):
        return self

    def __exit__(self, *details):
        if self.daemon is not None:
            self.daemon.__exit__(*details)


def main():
    """Runs a program in a new arm."""
    try:
        with Arm({"intake.channels": 1}) as arm:  # what comes over several may overtake
            env = {**os.environ, "HARBINGER_TEST_WORKERS": arm.workers, "HARBINGER_TEST_INTAKE": arm.intake,
                   "HARBINGER_TEST_WORK": arm.work}
            sys.exit(subprocess.run(sys.argv[1:], env=env, check=False).returncode)
    except harness.Skip as reason:
        print(f"1..0 # SKIP {reason}")


if __name__ == "__main__":
    main()
