"""The program proxy_server beside a test: the AMQP proxy with a broker of its own."""
import json
import subprocess

import pika

import harness


class Proxied:
    """with Proxied(work="w", window=1) as p: options are the program's own."""

    def __init__(self, **options):
        options.setdefault("upstream", harness.AMQP)
        self.options = options

    def __enter__(self):
        program = harness.BUILD / "tests/lib/proxy_server"
        words = [f"{name}={value}" for name, value in self.options.items()]
        self.log = []
        self.process = subprocess.Popen([program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        assert ready.startswith("Ready port="), f"proxy_server did not start: {ready!r}"
        self.port = int(ready.split("=")[1])
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.stdin.close()
        code = self.process.wait(20)
        self.process.stdout.close()
        if _[0] is None:
            harness.equal(code, 0, "exit code of proxy_server")

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "proxy_server is gone"
        return answer.strip()

    def put(self, count, size=20, level=1):
        """Puts messages into the broker; returns the last one's number. Bodies are "NUMBER:xxx"."""
        return int(self.say(f"put {count} {size} {level}").split()[1])

    def stats(self):
        return json.loads(self.say("stats"))

    def connect(self, **options):
        """pika, as a worker would; only host and port are the proxy's."""
        parameters = pika.URLParameters(harness.AMQP)
        parameters.host, parameters.port = "127.0.0.1", self.port
        parameters.heartbeat = options.pop("heartbeat", 30)
        for name, value in options.items():
            setattr(parameters, name, value)
        return pika.BlockingConnection(parameters)


def number(body):
    return int(body.split(b":")[0])
