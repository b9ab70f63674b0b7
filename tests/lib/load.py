"""The program `load` in Python: many messages, quickly. `consumer = Load("consume", queue, n); consumer.result()`."""
import json
import subprocess

import harness


class Load:
    """A running `load`; `options` are its NAME=NUMBER arguments. Leaves no process behind (use `with`)."""

    def __init__(self, action, queue, count, uri=None, **options):
        words = [f"{name}={value}" for name, value in options.items()]
        self.process = subprocess.Popen([str(harness.BUILD / "tests/lib/load"), action, uri or harness.AMQP, queue,
                                         str(count), *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)

    def running(self):
        return self.process.poll() is None

    def result(self, limit=120):
        """Waits for its end; what it has measured."""
        out, _ = self.process.communicate(timeout=limit)
        assert self.process.returncode == 0, f"load: exit code {self.process.returncode}"
        return json.loads(out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.running():
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
