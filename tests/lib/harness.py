"""What the tests in Python share: a TAP runner, waiting with a limit, the broker beside us, the daemon.

A test file defines functions whose names are claims and ends with `harness.main(globals())`. They run
under with-rabbit, which says where the broker is.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

import pika

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HARBINGER_BUILD", ROOT / "build"))
DAEMON = pathlib.Path(os.environ.get("HARBINGER_DAEMON", BUILD / "src/sidecar/harbingerd"))
AMQP = os.environ.get("HARBINGER_TEST_AMQP", "")
NODE_DIR = os.environ.get("HARBINGER_TEST_NODE_DIR", "")
PLAIN = os.environ.get("HARBINGER_PLAIN", "1") != "0"  # no sanitizer, whose memory tells nothing
LONG = os.environ.get("HARBINGER_TEST_LONG", "") not in ("", "0")


class Skip(Exception):
    """The machine lacks what the test needs; the text says what."""


def main(names):
    """Runs each public function of a test file, in order, and speaks TAP. Arguments choose by part of name."""
    tests = [(name, item) for name, item in names.items()
             if callable(item) and getattr(item, "__module__", "") == "__main__" and name[0] != "_"
             and not isinstance(item, type)]
    if len(sys.argv) > 1:
        tests = [t for t in tests if any(part in t[0] for part in sys.argv[1:])]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by an exception, so that all is cleaned up
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for number, (name, test) in enumerate(tests, 1):
        started = time.monotonic()
        try:
            test()
            print(f"ok {number} {name}", flush=True)
        except Skip as reason:
            print(f"ok {number} {name} # SKIP {reason}", flush=True)
        except BaseException as error:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} {name}", flush=True)
            traceback.print_exc()
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        print(f"# {name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    sys.exit(1 if failed else 0)


def wait_until(condition, limit=15.0, what="the condition"):
    """Polls until condition() is true and returns its value; fails after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit} s: {what() if callable(what) else what}")
        time.sleep(0.02)


def equal(got, wanted, what=""):
    assert got == wanted, f"{what or 'value'}: got {got!r}, wanted {wanted!r}"


def node_modules(source, name):
    """A folder with the JavaScript of `source` and the modules that it needs; it fails where they cannot be had."""
    script, folder = "scripts/node-modules", BUILD / name
    done = subprocess.run([str(ROOT / script), str(ROOT / source), str(folder)], stdin=subprocess.DEVNULL,
                          stdout=sys.stderr, check=False)
    assert done.returncode == 0, f"the Node modules of {source} are missing: run {script} {source} {folder}"
    return folder


# --- the broker ---------------------------------------------------------------------------------

def rabbit_node(*args, check=True):
    """rabbit-node COMMAND DIR ARG... on the node beside us; returns its output."""
    command, *rest = args
    done = subprocess.run([str(ROOT / "tests/lib/rabbit-node"), command, NODE_DIR, *rest],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert not check or done.returncode == 0, f"rabbit-node {args}: {done.stdout}"
    return done.stdout


def ctl(*args, check=True):
    return rabbit_node("ctl", "-q", *args, check=check)


def fact(name):
    return dict(line.split("=", 1) for line in rabbit_node("facts").split())[name]


def amqp_port():
    return int(re.search(r":(\d+)/", AMQP).group(1))


def connect(uri=None, **options):
    """A connection without heartbeats, so that a test may leave it alone."""
    parameters = pika.URLParameters(uri or AMQP)
    parameters.heartbeat = 0
    for name, value in options.items():
        setattr(parameters, name, value)
    return pika.BlockingConnection(parameters)


def ready_count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def get_all(channel, queue):
    """Takes all ready messages, acked: a list of (method, properties, body)."""
    out = []
    while True:
        got = channel.basic_get(queue, auto_ack=True)
        if got[0] is None:
            return out
        out.append(got)


def delete_topology():
    """Removes what the daemon declares, so that a test starts from nothing."""
    delete_queues("harbinger.intake", "harbinger.work", "harbinger.reports", "harbinger.parked",
                  exchanges=["harbinger.reports"])


def delete_queues(*queues, exchanges=()):
    with connect() as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_delete(queue)
        for exchange in exchanges:
            channel.exchange_delete(exchange)


# --- the daemon ---------------------------------------------------------------------------------

class Daemon:
    """harbingerd with its own log; `settings` are dotted keys. Leaves no process behind (use `with`)."""

    def __init__(self, settings=None, uri=None, env=None, wait=True, config=None):
        if not DAEMON.exists():
            raise Skip(f"{DAEMON.name} is not built")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="harbinger-daemon."))
        self.log_path = self.dir / "log"
        self.settings = {"amqp.uri": uri or AMQP, "http.listen": "127.0.0.1:0", "instance": "t",
                         "snapshot.path": "", "amqp.reconnect_min": "100ms",
                         "amqp.reconnect_max": "1s", **(settings or {})}
        self.config = config
        self.env = {**os.environ, **(env or {})}
        self.process = None
        self.start(wait)

    def arguments(self):
        out = [str(DAEMON)]
        if self.config:
            out += ["-c", str(self.config)]
        for key, value in self.settings.items():
            out += ["--set", f"{key}={value}"]
        return out

    def start(self, wait=True):
        self.mark = self.log_path.stat().st_size if self.log_path.exists() else 0
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.arguments(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=self.env)
        if wait:
            self.wait_log("event=ready")

    def log(self):
        """What this run (since the last start) has logged."""
        with open(self.log_path, "rb") as log:
            log.seek(self.mark)
            return log.read().decode(errors="replace")

    def wait_log(self, text, limit=15):
        def seen():
            return text in self.log() or self.process.poll() is not None
        wait_until(seen, limit, lambda: f"{text!r} in the daemon's log:\n{self.log()[-3000:]}")
        assert text in self.log(), f"the daemon ended ({self.process.returncode}):\n{self.log()[-3000:]}"

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, limit=40):
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(limit)

    def http(self, path):
        """(status, text) of a GET."""
        port = wait_until(lambda: re.findall(r"event=http.up address=\S*:(\d+)", self.log()),
                          what="the HTTP port in the log")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[-1]}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self):
        return json.loads(self.http("/status")[1])

    def metrics(self):
        """{name{labels}: value}"""
        out = {}
        for line in self.http("/metrics")[1].splitlines():
            if line and line[0] != "#":
                name, value = line.rsplit(" ", 1)
                out[name] = float(value)
        return out

    def memory_kib(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        if kind not in (None, Skip):
            print(f"# the daemon's log:\n{self.log()[-6000:]}", file=sys.stderr)
        shutil.rmtree(self.dir, ignore_errors=True)
