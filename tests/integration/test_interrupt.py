"""Ctrl-C leaves no process behind: neither a broker with its epmd, nor a daemon, nor a worker."""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
from harness import ROOT, equal, wait_until  # noqa: E402

WITH_RABBIT = [str(ROOT / "tests/lib/with-rabbit"), "/usr/bin/python3"]
DEMO = [*WITH_RABBIT, str(ROOT / "scripts/lib/demo.py"), str(ROOT)]  # as scripts/demo calls it


def _parents():
    """{process id: (parent's id, when it began)} of all that run."""
    out = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        fields = text.rsplit(")", 1)[1].split()
        if fields[0] not in "ZX":
            out[int(path.parent.name)] = (int(fields[1]), fields[19])
    return out


def _command(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class _Family:
    """A command in a session of its own, and all processes that it ever started, at any depth."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        self.members = {}

    def look(self):
        """Takes in new members; the command lines of those that run."""
        running = _parents()
        grown = True
        while grown:
            grown = False
            for pid, (parent, began) in running.items():
                if pid not in self.members and (pid == self.process.pid or parent in self.members):
                    self.members[pid] = began
                    grown = True
        alive = [pid for pid, began in self.members.items() if running.get(pid, (0, ""))[1] == began]
        return {pid: _command(pid) for pid in alive}

    def has(self, *names):
        lines = list(self.look().values())
        return all(any(name in line for line in lines) for name in names)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.look():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def _interrupt(command, *names):
    """Ctrl-C as soon as all these run."""
    with _Family(command) as family:
        wait_until(lambda: family.has(*names), 60, lambda: f"{names} among {family.look()}")
        os.killpg(family.process.pid, signal.SIGINT)
        family.look()
        equal(family.process.wait(30), 130, "exit code")
        wait_until(lambda: not family.look(), 15, lambda: f"all gone: {family.look()}")


def ctrl_c_in_the_demo_while_the_broker_starts_leaves_nothing():
    _interrupt(DEMO, "epmd", "beam.smp")


def ctrl_c_in_the_demo_while_jobs_run_leaves_nothing():
    _interrupt(DEMO, "demo_worker.py", "beam.smp")


def ctrl_c_in_a_test_with_a_daemon_leaves_nothing():
    if not harness.DAEMON.exists():
        raise harness.Skip(f"{harness.DAEMON.name} is not built")
    _interrupt([*WITH_RABBIT, str(ROOT / "tests/integration/test_through.py")], "harbingerd", "beam.smp")


harness.main(globals())
