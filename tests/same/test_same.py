"""The simulator's code decides as the daemon does: what a real one has recorded is replayed to the same bytes."""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import pika  # noqa: E402
import rpc  # noqa: E402
from harness import Daemon, equal, wait_until  # noqa: E402
from oracle import INTAKE, WORK  # noqa: E402

CLI = harness.BUILD / "src/cli/harbinger"
KINDS = {"mail": 3, "invoice": 12, "résumé 100%": 45, "report/weekly": 400}  # median, ms
OTHERS = {"predictor.min_samples": "7", "predictor.boundary_refresh_every": "40", "predictor.decay": "0.98",
          "predictor.time_half_life": "2s", "predictor.hysteresis": "0.05"}


def _journal(folder, settings):
    return {**settings, "journal.path": str(folder / "journal.tsv")}


def _replay(folder, *arguments, code=0):
    done = subprocess.run([str(CLI), "replay", str(folder / "journal.tsv"), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    equal(done.returncode, code, f"exit code of replay ({done.stderr})")
    return done.stdout if code == 0 else done.stderr


def _same(folder, jobs, lessons, settings=None):
    """The journal has all of it, and is replayed to the same bytes; other options decide otherwise."""
    options = ["--set", ",".join(f"{name}={value}" for name, value in (settings or {}).items())] if settings else []
    said = json.loads(_replay(folder, "--json", "--out", str(folder / "again.tsv"), *options))
    equal((said["jobs"], said["learned"]), (jobs, lessons), "jobs and durations learned")
    equal((said["other_level"], said["other_estimate"], said["first_other_line"]), (0, 0, 0), "other decisions")
    recorded = (folder / "journal.tsv").read_bytes()
    assert recorded == (folder / "again.tsv").read_bytes(), "the bytes differ"
    reasons = {line.split(b"\t")[5] for line in recorded.split(b"\n")[1:-1]}
    assert b"predicted" in reasons and len(reasons) > 2, f"too little was decided: {reasons}"
    other = json.loads(_replay(folder, "--json", "--set", "predictor.min_samples=100000"))
    assert other["other_level"] > 0, "options do not matter"


def _publish(channel, rng, count):
    for _ in range(count):
        kind = rng.choice(list(KINDS))
        channel.basic_publish("", INTAKE, b"x" * rng.randrange(3000), pika.BasicProperties(
            headers={"job_type": kind}, app_id=rng.choice([None, "shop", "crm"])))


def _run_with_reports(folder, settings, rng):
    """Jobs to the work queue and reports back, in batches; returns how many of each."""
    harness.delete_topology()
    with Daemon(_journal(folder, settings)) as daemon, harness.connect() as connection:
        channel = connection.channel()
        reported = 0
        for batch in range(12):
            _publish(channel, rng, 50)
            wait_until(lambda: harness.ready_count(channel, WORK) == 50, what="the batch in the work queue")
            for _, properties, _ in harness.get_all(channel, WORK):
                headers = properties.headers
                report = {"id": headers["x-harbinger-id"], "key": headers["x-harbinger-key"],
                          "duration_ms": KINDS[headers["job_type"]] * rng.lognormvariate(0, 0.4)}
                if rng.random() < 0.03:
                    report = {**report, "outcome": rng.choice(["error", "timeout"])}
                else:
                    reported += 1
                channel.basic_publish("harbinger.reports", "", json.dumps(report).encode())
            wait_until(lambda: daemon.status()["reports"]["messages"] == 50 * (batch + 1), what="the batch's reports")
        equal(daemon.stop(), 0, "exit code")
    return 600, reported


def reports_are_replayed_to_the_same_decisions():
    for settings in ({}, {**OTHERS, "key.size": "body"}):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            jobs, lessons = _run_with_reports(folder, settings, random.Random(len(settings)))
            _same(folder, jobs, lessons, {n: v for n, v in settings.items() if n != "key.size"})


def settlements_are_replayed_to_the_same_decisions():
    if rpc.grpc is None:
        raise harness.Skip("python3-grpcio is not installed")
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        harness.delete_topology()
        settings = {"backend": "harbinger", "rpc.listen": "127.0.0.1:0", "broker.lease": "2s"}
        with Daemon(_journal(folder, settings)) as daemon, harness.connect() as connection:
            address = wait_until(lambda: re.findall(r"event=rpc.up address=(\S+)", daemon.log()), what="rpc.up")[-1]
            with rpc.Client(address).register() as worker:
                for batch in range(8):
                    _publish(connection.channel(), rng, 50)
                    for number in range(50):
                        message = worker.pull(5000)
                        if batch == 3 and number == 0:  # its lease runs out, and it comes again
                            message = worker.pull(5000)
                        worker.ack(message, KINDS[message.headers["job_type"]] * rng.lognormvariate(0, 0.4))
            equal(daemon.stop(), 0, "exit code")
        text = (folder / "journal.tsv").read_text(encoding="utf-8")
        lessons = text.count("\tlearned\t")
        assert lessons > 350, f"too little was learned: {lessons} of 400"
        equal(text.count("\ttimeout\t"), 1, "timeouts")
        _same(folder, 400, lessons)


def a_journal_that_cannot_be_written_holds_up_nothing():
    harness.delete_topology()
    with Daemon({"journal.path": "/dev/full"}) as daemon, harness.connect() as connection:
        channel = connection.channel()
        _publish(channel, random.Random(1), 20)
        wait_until(lambda: harness.ready_count(channel, WORK) == 20, what="all forwarded")
        daemon.wait_log("event=journal.lost")
        equal(daemon.metrics()["harbinger_journal_lost_total"], 20, "lines lost")
        equal(daemon.stop(), 0, "exit code")


def a_journal_is_opened_again():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        harness.delete_topology()
        with Daemon(_journal(folder, {})) as daemon, harness.connect() as connection:
            channel = connection.channel()
            for part in (1, 2):
                _publish(channel, random.Random(part), 10)
                wait_until(lambda part=part: harness.ready_count(channel, WORK) == 10 * part, what="forwarded")
                if part == 1:
                    (folder / "journal.tsv").rename(folder / "old.tsv")
                    daemon.signal(1)
                    daemon.wait_log("event=reloaded")
            equal(daemon.stop(), 0, "exit code")
        for file in ("old.tsv", "journal.tsv"):
            equal((folder / file).read_text(encoding="utf-8").count("\tjob\t"), 10, f"jobs in {file}")
        with open(folder / "journal.tsv", "a", encoding="utf-8") as file:
            file.write("12\tjob\tmail\t1\t-\tcold_key\n")
        _replay(folder, code=1)


harness.main(globals())
