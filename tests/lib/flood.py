"""The program `flood` in Python: one publisher, several workers, measured."""
import json
import pathlib
import subprocess

import harness


def flood(publish_uri, intake, consume_uri, work, count, cpu=(), limit=300, **options):
    """Runs it; `cpu`: pids of other processes to be measured, `options`: its NAME=NUMBER. None with only=1."""
    words = [f"{name}={value}" for name, value in options.items()] + [f"cpu={pid}" for pid in cpu]
    done = subprocess.run([str(harness.BUILD / "tests/lib/flood"), publish_uri, intake, consume_uri, work, str(count),
                           *words], stdout=subprocess.PIPE, text=True, check=False, timeout=limit)
    assert done.returncode == 0, f"flood: exit code {done.returncode}"
    return json.loads(done.stdout) if done.stdout else None


def cpu_us(pid):
    """CPU time that a process has used, all its threads."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1000


def broker_pid():
    return int((pathlib.Path(harness.NODE_DIR) / "broker.pid").read_text(encoding="ascii"))
