"""faultproxy in Python: `with Proxy(port) as proxy: proxy("hold all up")`."""
import subprocess

import harness


class Proxy:
    """A running faultproxy before 127.0.0.1:port; `port` is its own."""

    def __init__(self, port):
        self.process = subprocess.Popen([str(harness.BUILD / "tests/lib/faultproxy"), "127.0.0.1", str(port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.port = int(self.process.stdout.readline().split()[1])

    def __call__(self, command):
        """Sends one command; returns the words after "ok"."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer and answer[0] == "ok", f"{command}: {' '.join(answer)}"
        return answer[1:]

    def connections(self):
        """{id: (port towards the target, bytes up, bytes down)}"""
        rows = [[int(n) for n in row.split(":")] for row in self("list")]
        return {row[0]: tuple(row[1:]) for row in rows}

    def uri(self):
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2f"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
