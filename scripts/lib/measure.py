"""What the benchmarks share: CPU time of processes, medians with their spread."""
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))
import harness  # noqa: E402


def say(text):
    print("bench:", text, file=sys.stderr, flush=True)


def cpu_us(pid):
    """CPU time that a process has used, all its threads."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1000


def broker_pid():
    return int((pathlib.Path(harness.NODE_DIR) / "broker.pid").read_text(encoding="ascii"))


def spread(values, digits=3):
    """(median, lowest, highest) of the rounds."""
    return tuple(round(value, digits) for value in (statistics.median(values), min(values), max(values)))


def median_ratio(above, below):
    """Of each round's ratio: what slows the machine down for a round slows both."""
    return statistics.median(a / b for a, b in zip(above, below))
