"""The command line harbinger, against the real server and against a scripted one."""
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402
import grpc  # noqa: E402
import rpc  # noqa: E402
from rpc_script import Client, Script, pb  # noqa: E402

PROGRAM = harness.BUILD / "src/cli/harbinger"


def _ask(address, *words, code=0, environment=None):
    """Runs it; returns standard output, or standard error when it is to fail."""
    done = subprocess.run([str(PROGRAM), *(["--connect", address] if address else []), *words], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, env={**os.environ, **(environment or {})})
    equal(done.returncode, code, f"exit code of {words} ({done.stdout} {done.stderr})")
    return done.stderr if code else done.stdout


def _with_dead(server, dead, waiting):
    Client("submit", server.address, count=dead + waiting).end()
    Client("consume", server.address, fail=dead, stop_after=dead).end()


def _ids(text):
    return re.findall(r"^(\S+-\d+) ", text, re.M)


def status_shows_levels_and_totals():
    with rpc.Server(max_attempts=1) as s:
        _with_dead(s, 3, 2)
        text = _ask(s.address, "status")
        assert text.startswith(f"{s.address}: 2 waiting, 0 in flight, 3 dead\n"), text
        assert re.search(r"^ +1 +2 +0 +\S+ m?s +3 +0 +0\.0$", text, re.M), text
        assert re.search(r"^submitted +5$", text, re.M) and re.search(r"^nacked +3$", text, re.M), text
        status = json.loads(_ask(s.address, "status", "--json"))
        equal((status["waiting"], status["dead"], status["draining"]), (2, 3, False))
        equal(([l["waiting"] for l in status["levels"]], status["totals"]["submitted"]), ([0, 2, 0], 5))


def dead_letters_are_listed_shown_redriven_and_purged():
    with rpc.Server(max_attempts=1) as s:
        _with_dead(s, 130, 0)
        equal(len(_ids(_ask(s.address, "dlq", "list"))), 20)
        text = _ask(s.address, "dlq", "list", "--limit", "1000", "--offset", "5")
        ids = _ids(text)
        equal((len(ids), len(set(ids))), (125, 125))
        assert "130 dead letters in all" in text and "told to fail" in text
        listed = json.loads(_ask(s.address, "dlq", "list", "--json", "--limit", "2"))
        equal((listed["total"], [e["payload"] for e in listed["entries"]]), (130, ["xxxxx"] * 2))
        shown = _ask(s.address, "dlq", "show", ids[124])
        assert f"id        {ids[124]}\n" in shown and "header    job_type: test\n" in shown, shown
        equal(json.loads(_ask(s.address, "dlq", "show", ids[0], "--json"))["id"], ids[0])
        equal(_ask(s.address, "dlq", "redrive", ids[0]), "redriven: 1\n")
        equal(_ask(s.address, "dlq", "redrive", "--limit", "9"), "redriven: 9\n")
        equal(_ask(s.address, "dlq", "purge", ids[20], "--yes"), "purged: 1\n")
        equal(_ask(s.address, "dlq", "redrive", "--all"), "redriven: 119\n")
        equal(_ask(s.address, "dlq", "purge", "--all", "--yes"), "purged: 0\n")
        equal(_ask(s.address, "dlq", "list"), "0 dead letters in all\n")
        equal(json.loads(_ask(s.address, "status", "--json"))["waiting"], 129)
        for words in (["dlq", "show", "nope"], ["dlq", "redrive", ids[20]], ["dlq", "purge", ids[20], "--yes"]):
            assert "no " in _ask(s.address, *words, code=4)


def what_is_no_text_is_shown_all_the_same():
    with Script() as s:
        s.answers["InspectDlq"] = pb.InspectDlqResponse(total_size=1, entries=[pb.DlqEntry(
            message_id="a-1", payload=b"\x1b[2J\xc3\xa9\xff\x00", reason=2, details="x\ny", dlq_age_ms=7200000,
            retry_count=3, headers={"job_type": "caf\u00e9"})])
        shown = _ask(s.address, "dlq", "show", "a-1")
        for line in ("reason    ttl_expired", "details   x\\x0ay", "age       2 h", "header    job_type: café",
                     "payload   8 bytes", "\\x1b[2Jé\\xff\\x00"):
            assert f"{line}\n" in shown, (line, shown)
        entry = json.loads(_ask(s.address, "dlq", "show", "a-1", "--json"))
        equal((entry["payload_hex"], entry["details"], entry["failures"]), ("1b5b324ac3a9ff00", "x\ny", 3))


def nothing_is_dropped_without_yes_or_a_choice():
    with Script() as s:
        for words in (["dlq", "purge", "--all"], ["dlq", "purge", "a-1"], ["dlq", "purge", "--yes"],
                      ["dlq", "purge", "a-1", "--all", "--yes"], ["dlq", "purge", "", "--yes"], ["dlq", "redrive"],
                      ["dlq", "redrive", ""], ["dlq", "redrive", "--all", "--limit", "3"]):
            _ask(s.address, *words, code=2)
        equal(s.calls, [])


def drain_waits_for_what_is_there():
    with rpc.Server() as s:
        Client("submit", s.address, count=3).end()
        assert _ask(s.address, "drain") == "draining: 3 waiting, 0 in flight\n"
        assert ", draining\n" in _ask(s.address, "status")
        with Client("submit", s.address) as c:
            c.end(1)
        process = subprocess.Popen([str(PROGRAM), "--connect", s.address, "drain", "--wait"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        equal(process.stderr.readline(), "3 waiting, 0 in flight\n")
        equal(process.poll(), None)
        Client("consume", s.address, stop_after=3).end()
        out, _ = process.communicate(timeout=10)
        equal((process.returncode, out), (0, "draining: 0 waiting, 0 in flight\n"))


def status_watches():
    with Script() as s:
        process = subprocess.Popen([str(PROGRAM), "--connect", s.address, "status", "--watch=20ms", "--json"], text=True,
                                   stdout=subprocess.PIPE)
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.terminate()
        process.wait()
        process.stdout.close()
        equal(lines[2]["waiting"], 0)


def errors_are_named_and_have_their_exit_codes():
    equal(_ask("127.0.0.1:1", "status", code=3), "harbinger: Stats at 127.0.0.1:1: UNAVAILABLE: Connection refused\n")
    assert "not of the form HOST:PORT" in _ask("nonsense", "status", code=3)
    with Script() as s:
        s.fail["Stats"] = ["hang", grpc.StatusCode.UNAUTHENTICATED]
        assert "DEADLINE_EXCEEDED" in _ask(s.address, "status", "--timeout", "200ms", code=3)
        assert "UNAUTHENTICATED: as the script says" in _ask(s.address, "status", code=1)
        equal(_ask(None, "status", environment={"HARBINGER_CONNECT": s.address})[:15], s.address[:15])
        token = pathlib.Path(__file__).resolve()  # any file will do
        _ask(s.address, "status", "--token-file", str(token))
        wait_until(lambda: s.calls[-1].metadata["authorization"] == "Bearer " + token.read_text("utf-8").split("\n")[0])


def half_a_command_says_what_follows():
    for words in (["dlq"], ["dlq", "--help"], ["dlq", "lst"]):
        assert "'dlq' needs one of: list, show, redrive, purge" in _ask(None, *words, code=2), words
    for words in (["stauts"], ["dlqx"], ["d"]):
        assert f"there is no command '{words[0]}'" in _ask(None, *words, code=2), words


def a_wrong_command_line_is_2_and_help_is_output():
    for words in ([], ["nonsense"], ["dlq"], ["dlq", "nonsense"], ["status", "--limit", "3"], ["status", "more"],
                  ["dlq", "show"], ["dlq", "list", "--limit", "0"], ["dlq", "list", "--limit", "x"],
                  ["dlq", "list", "--offset", "-1"], ["status", "--nonsense"], ["status", "--timeout", "5"]):
        assert _ask(None, *words, code=2), words
    text = _ask(None, "--help")
    for command in ("status", "dlq list", "dlq show", "dlq redrive", "dlq purge", "drain"):
        assert f"  {command}" in text
        assert _ask(None, *command.split(), "--help").startswith(f"usage: harbinger {command} ")
    assert re.fullmatch(r"harbinger \d+\.\d+\.\d+\n", _ask(None, "--version"))
    page = (harness.ROOT / "deploy/man/harbinger.1").read_text("utf-8")
    for option in re.findall(r"^  --([a-z-]+)", text, re.M):
        assert f"Fl Fl {option}" in page, option


if __name__ == "__main__":
    harness.main(globals())
