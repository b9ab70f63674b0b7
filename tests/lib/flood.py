"""The program `flood` in Python: one publisher, several workers, measured."""
import json
import subprocess

import harness


class Flood:
    """A running `flood`; `cpu` are pids of other processes to be measured, `options` its NAME=NUMBER arguments.

    Leaves no process behind (use `with`).
    """

    def __init__(self, publish_uri, intake, consume_uri, work, count, cpu=(), **options):
        words = [f"{name}={value}" for name, value in options.items()] + [f"cpu={pid}" for pid in cpu]
        self.process = subprocess.Popen(
            [str(harness.BUILD / "tests/lib/flood"), publish_uri, intake, consume_uri, work, str(count), *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def result(self, limit=300):
        """Waits for its end; what it has measured, None with only=1."""
        out, _ = self.process.communicate(timeout=limit)
        assert self.process.returncode == 0, f"flood: exit code {self.process.returncode}"
        return json.loads(out) if out else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def flood(*arguments, **options):
    """Runs it to its end."""
    with Flood(*arguments, **options) as running:
        return running.result()
