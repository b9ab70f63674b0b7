"""The C client against a scripted broker on Python's gRPC: the behaviour of the reference's bundled clients, and the
streams."""
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import equal, wait_until  # noqa: E402
import grpc  # noqa: E402
from rpc_script import Client, Script, pb  # noqa: E402

UNAVAILABLE, LATE = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED


def pulls_handles_and_acks_with_a_fine_duration():
    with Script() as s, Client("consume", s.address, handle_ms=30, stop_after=2) as c:
        s.add(b"one", b"", job_type="a")
        c.end()
        equal(c.lines("message"), ["m0 3 one lease_ms=30000 job_type=a", "m1 0  lease_ms=30000 job_type=a"])
        for ack, number in zip(s.named("Ack"), (0, 1)):
            r = ack.request
            equal((r.consumer_id, r.message_id, r.attempt_token), ("consumer-0", f"m{number}", f"t-{number}"))
            assert 30 <= r.duration_ms < 200 and r.processing_time_ms == int(r.duration_ms), r
        equal(s.named("Pull")[0].request, pb.PullRequest(consumer_id="consumer-0", timeout_ms=1000))
        equal((c.value("handled"), c.value("failed"), c.value("status")), ("2", "0", "OK"))


def a_failed_handler_is_a_nack_with_its_reason():
    with Script() as s, Client("consume", s.address, fail=1, stop_after=2) as c:
        s.add(b"bad", b"good")
        c.end()
        nack, = s.named("Nack")
        equal((nack.request.message_id, nack.request.attempt_token, nack.request.reason), ("m0", "t-0", "told to fail"))
        assert nack.request.WhichOneof("duration") == "duration_ms"
        equal([a.request.message_id for a in s.named("Ack")], ["m1"])
        equal((c.value("handled"), c.value("failed")), ("1", "1"))


def a_lost_answer_to_an_ack_is_repeated_and_the_handler_is_not():
    with Script() as s, Client("consume", s.address, stop_after=1, timeout_ms=400) as c:
        s.fail["Ack"] = [UNAVAILABLE, "hang"]
        s.add(b"once")
        c.end()
        acks = s.named("Ack")
        equal(len(acks), 3)
        assert acks[0].request == acks[1].request == acks[2].request
        assert acks[1].time - acks[0].time >= 0.1 and acks[2].time - acks[1].time >= 0.6, acks
        equal(len(c.lines("message")), 1)
        equal((c.value("retried"), c.value("status")), ("2", "OK"))


def a_nack_is_sent_three_times_at_most_and_then_it_stops():
    with Script() as s, Client("consume", s.address, fail=1) as c:
        s.fail["Nack"] = [UNAVAILABLE, LATE, UNAVAILABLE]
        s.add(b"x", b"what came meanwhile", b"never handled")
        c.end(1)
        equal(len(s.named("Nack")), 3)
        equal(len(c.lines("message")), 2)
        equal([a.request.message_id for a in s.named("Ack")], ["m1"])
        equal(c.value("status"), "UNAVAILABLE")
        equal(c.lines("error"), [f"Nack at {s.address}: UNAVAILABLE: as the script says: 100% Nack ☂"])


def a_lost_lease_is_counted_and_it_goes_on():
    with Script() as s, Client("consume", s.address, stop_after=2) as c:
        s.fail["Ack"] = [grpc.StatusCode.FAILED_PRECONDITION]
        s.add(b"x", b"y")
        c.end()
        equal((c.value("lease_lost"), len(s.named("Ack")), c.value("status")), ("1", 2, "OK"))


def another_error_of_a_settlement_stops():
    for status in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT):
        with Script() as s, Client("consume", s.address) as c:
            s.fail["Ack"] = [status]
            s.add(b"x", b"what came meanwhile", b"never handled")
            c.end(1)
            equal([a.request.message_id for a in s.named("Ack")], ["m0", "m1"])
            equal((c.value("handled"), c.value("status"), c.value("retried")), ("2", status.name, "0"))
            equal(c.lines("error"), [f"Ack at {s.address}: {status.name}: as the script says: 100% Ack ☂"])


def a_delivery_does_not_wait_for_the_answer_to_the_settlement_before():
    with Script() as s, Client("consume", s.address, timeout_ms=5000) as c:
        s.fail["Ack"] = ["hang"]
        s.add(b"x", b"y", b"not before the first is known to be settled")
        wait_until(lambda: len(c.lines("message")) == 2)
        equal([a.request.message_id for a in s.named("Ack")], ["m0"])


def an_error_of_a_pull_that_passes_is_waited_out():
    with Script(Pull=[UNAVAILABLE, LATE]) as s, Client("consume", s.address, stop_after=1) as c:
        s.add(b"x")
        c.end()
        pulls = s.named("Pull")
        equal((len(pulls), c.value("pull_errors")), (3, "2"))
        assert all(b.time - a.time >= 0.2 for a, b in zip(pulls, pulls[1:]))


def a_pull_without_an_answer_ends_half_a_second_after_its_time():
    with Script(Pull=["hang"]) as s, Client("consume", s.address, stop_after=1, pull_ms=200) as c:
        s.add(b"x")
        c.end()
        first, second = s.named("Pull")
        assert 0.85 < second.time - first.time < 2, second.time - first.time
        equal(c.value("pull_errors"), "1")


def another_error_of_a_pull_stops():
    with Script(Pull=[grpc.StatusCode.PERMISSION_DENIED]) as s, Client("consume", s.address) as c:
        c.end(1)
        equal(c.lines("error"), [f"Pull at {s.address}: PERMISSION_DENIED: as the script says: 100% Pull ☂"])


def a_server_that_starts_again_is_found_and_registered_with():
    with Script() as first:
        with Client("consume", first.address, pull_ms=100, stop_after=1) as c:
            wait_until(lambda: first.named("Pull"))
            first.stop()
            wait_until(lambda: _refuses(first.port))
            with Script(first.port) as second:
                second.counters["consumer"] = 7
                second.add(b"x")
                c.end()
                equal(second.named("Pull")[0].request.consumer_id, "consumer-7")
                equal(second.named("Ack")[0].request.consumer_id, "consumer-7")


def _refuses(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


def a_server_that_starts_again_meanwhile_does_not_end_the_worker():
    with Script() as first:
        with Client("consume", first.address, pull_ms=100, handle_ms=1000, stop_after=2) as c:
            first.add(b"x")
            wait_until(lambda: c.lines("message"))
            first.stop()
            wait_until(lambda: _refuses(first.port))
            with Script(first.port) as second:
                second.fail["Ack"] = [grpc.StatusCode.PERMISSION_DENIED]
                second.add(b"y")
                c.end()
                equal((c.value("lease_lost"), c.value("handled"), c.value("status")), ("1", "2", "OK"))


def a_stop_cancels_a_waiting_pull():
    with Script() as s, Client("consume", s.address, pull_ms=60000) as c:
        wait_until(lambda: s.named("Pull"))
        started = time.monotonic()
        c.stop()
        assert time.monotonic() - started < 2
        wait_until(lambda: s.cancelled == 1)
        equal(c.value("status"), "OK")


def a_stop_waits_for_the_handler_and_its_settlement():
    with Script() as s, Client("consume", s.address, handle_ms=500) as c:
        s.fail["Ack"] = [UNAVAILABLE]
        s.add(b"x", b"y")
        wait_until(lambda: c.lines("message"))
        c.stop()
        equal((len(s.named("Ack")), len(c.lines("message")), c.value("status")), (2, 1, "OK"))


def a_stop_interrupts_the_waiting_after_an_error():
    with Client("consume", "127.0.0.1:1") as c:
        time.sleep(0.3)  # several turns
        started = time.monotonic()
        c.stop()
        assert time.monotonic() - started < 0.19 and int(c.value("pull_errors")) > 0, c.out


def a_handler_can_extend_its_lease():
    with Script() as s, Client("consume", s.address, extend=1, stop_after=1) as c:
        s.add(b"x")
        c.end()
        equal(s.named("ExtendLease")[0].request,
              pb.ExtendLeaseRequest(consumer_id="consumer-0", message_id="m0", attempt_token="t-0"))
        equal(c.value("extended"), "OK lease_ms=45000")


def a_submit_carries_everything_and_is_not_repeated():
    with Script() as s, Client("submit", s.address, count=2, ttl_ms=0) as c:
        c.end()
        equal(c.lines("id"), ["s0", "s1"])
        equal(s.named("Submit")[0].request, pb.SubmitRequest(
            producer_id="producer-0", payload=b"xxxxx", headers={"job_type": "test", "n": "2"}, ttl_ms=0))
        equal(len(s.named("RegisterProducer")), 1)
    with Script(Submit=[UNAVAILABLE]) as s, Client("submit", s.address) as c:
        c.end(1)
        equal((len(s.named("Submit")), c.value("status")), (1, "UNAVAILABLE"))
        assert s.named("Submit")[0].request.WhichOneof("ttl") is None


def a_submit_has_a_deadline():
    with Script(Submit=["hang"]) as s, Client("submit", s.address, timeout_ms=300) as c:
        c.end(1, 3)
        equal(c.value("status"), "DEADLINE_EXCEEDED")  # the server may say so first, and in its words
        assert c.lines("error")[0].startswith(f"Submit at {s.address}: DEADLINE_EXCEEDED"), c.lines("error")
        wait_until(lambda: s.cancelled == 1)


def an_idle_connection_that_was_closed_is_opened_again():
    with Script() as first:
        with Client("submit", first.address, count=2, pause_ms=1500) as c:
            wait_until(lambda: first.named("Submit"))
            first.stop()
            wait_until(lambda: _refuses(first.port))
            with Script(first.port) as second:
                c.end()
                equal((len(second.named("RegisterProducer")), c.value("status")), (1, "OK"))


def a_payload_of_megabytes_goes_both_ways():
    with Script() as s:
        with Client("submit", s.address, bytes=9_000_000) as c:
            c.end()
            equal(len(s.named("Submit")[0].request.payload), 9_000_000)
        for credit in (0, 1):
            with Client("consume", s.address, stop_after=1, credit=credit) as c:
                s.add(b"y" * 9_000_001)
                c.end()
                assert " 9000001 y" in c.lines("message")[0]


def streamed_submissions_are_answered_in_order():
    with Script() as s, Client("submit", s.address, count=1000, stream=1, window=50) as c:
        c.end()
        wanted = ["RESOURCE_EXHAUSTED " if i % 3 == 2 else f"OK s{i}" for i in range(1000)]
        equal(c.lines("result"), wanted)
        equal(len(s.submits), 1000)


def a_stream_waits_when_its_window_is_full():
    with Script() as s, Client("submit", s.address, count=1000, stream=1, window=10) as c:
        s.answer_submits = False
        wait_until(lambda: s.submits)
        time.sleep(0.3)  # what must not come would come now
        equal(len(c.lines("result")), 0)
        s.answer_submits = True
        c.end()
        equal(len(c.lines("result")), 1000)


def a_broken_stream_tells_all_that_was_unanswered():
    with Script() as s, Client("submit", s.address, count=100, stream=1, window=20) as c:
        s.break_after = 31
        c.end(1)
        told = c.lines("result")
        equal(sum(not t.startswith("UNAVAILABLE") for t in told), 30)
        equal((c.value("status"), c.value("after")), ("UNAVAILABLE", "FAILED_PRECONDITION"))
        assert len(told) <= 50, told


def a_stream_to_nobody_is_an_error_and_no_crash():
    with Client("submit", "127.0.0.1:1", stream=1) as c:
        c.end(1)
        equal((c.value("status"), c.value("after")), ("UNAVAILABLE", "FAILED_PRECONDITION"))


def work_comes_by_credit_and_each_settlement_gives_one_more():
    with Script() as s, Client("consume", s.address, credit=2, fail=1, stop_after=4, handle_ms=5) as c:
        s.add(b"a", b"b", b"c", b"d", b"left over", job_type="w")
        c.end()
        work = [w.request for w in s.named("Work")]
        equal((work[0].consumer_id, work[0].credit), ("consumer-0", 2))
        settled = [(r.credit, r.settlements[0].message_id, r.settlements[0].failed) for r in work[1:]]
        equal(settled, [(1, "m0", True), (1, "m1", False), (1, "m2", False), (1, "m3", False)])
        assert all(r.settlements[0].duration_ms >= 5 for r in work[1:])
        equal(work[1].settlements[0].reason, "told to fail")
        equal(len(c.lines("message")), 4)
        wait_until(lambda: s.half_closed == 1)


def a_stop_ends_a_waiting_work_stream_in_order():
    with Script() as s, Client("consume", s.address, credit=3) as c:
        wait_until(lambda: s.named("Work"))
        c.stop()
        wait_until(lambda: s.half_closed == 1)
        equal(c.value("status"), "OK")


def a_refused_settlement_of_a_stream_is_a_lost_lease_or_an_end():
    with Script() as s, Client("consume", s.address, credit=1) as c:
        s.work_results = [pb.SettlementResult(message_id="m", status=9)]
        wait_until(lambda: not s.work_results)
        s.add(b"x")
        wait_until(lambda: c.lines("message"))
        s.work_results = [pb.SettlementResult(message_id="m", status=5, error="gone")]
        c.end(1)
        equal((c.value("lease_lost"), c.value("status")), ("1", "NOT_FOUND"))
        equal(c.lines("error"), [f"Work at {s.address}: NOT_FOUND: settlement of m: gone"])


def a_work_stream_that_ends_is_opened_again_or_stops():
    with Script() as s, Client("consume", s.address, credit=1) as c:
        s.work_ends = [UNAVAILABLE]
        wait_until(lambda: len([w for w in s.named("Work") if w.request.consumer_id]) == 2)
        s.work_ends = [grpc.StatusCode.PERMISSION_DENIED]
        c.end(1)
        equal((c.value("pull_errors"), c.value("status")), ("1", "PERMISSION_DENIED"))


def work_goes_on_after_a_restart():
    with Script() as first:
        with Client("consume", first.address, credit=1, stop_after=1) as c:
            wait_until(lambda: first.named("Work"))
            first.stop()
            with Script(first.port) as second:
                second.add(b"x")
                c.end()


def health_is_asked():
    with Script() as s, Client("health", s.address) as c:
        c.end()
        equal(c.value("serving"), "1")


def who_does_not_listen_or_speak_is_named():
    with Client("submit", "127.0.0.1:1") as c:
        c.end(1)
        equal(c.lines("error"), ["RegisterProducer at 127.0.0.1:1: UNAVAILABLE: Connection refused"])
    with Client("submit", "nonsense") as c:
        c.end(1)
        equal(c.lines("error"), ["RegisterProducer at nonsense: UNAVAILABLE: the address is not of the form HOST:PORT"])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]

        def answer():
            connection, _ = listener.accept()
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.recv(1)
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        with Client("submit", f"127.0.0.1:{port}", timeout_ms=2000) as c:
            c.end(1)
            equal(c.lines("error"),
                  [f"RegisterProducer at 127.0.0.1:{port}: UNAVAILABLE: the connection ended before "
                   "the server spoke HTTP/2"])


def a_server_that_accepts_and_is_silent_is_late():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with Client("submit", f"127.0.0.1:{listener.getsockname()[1]}", timeout_ms=300) as c:
            c.end(1, 3)
            equal(c.value("status"), "DEADLINE_EXCEEDED")


def tls_and_a_token():
    with tempfile.TemporaryDirectory() as work:
        for name in ("server", "other"):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:harbinger.test",
                            "-keyout", f"{work}/{name}.key", "-out", f"{work}/{name}.pem"], check=True,
                           stderr=subprocess.DEVNULL)
        key, certificate = (pathlib.Path(work, f"server.{end}").read_bytes() for end in ("key", "pem"))
        token = pathlib.Path(work, "token")
        token.write_text("s3cret\n", encoding="ascii")
        with Script(credentials=grpc.ssl_server_credentials([(key, certificate)])) as s:
            tls = {"ca": f"{work}/server.pem", "name": "harbinger.test"}
            with Client("submit", s.address, bytes=300_000, token=token, **tls) as c:
                c.end()
                equal(s.named("Submit")[0].metadata["authorization"], "Bearer s3cret")
            with Client("consume", s.address, credit=1, stop_after=1, **tls) as c:
                s.add(b"z" * 200_000)
                c.end()
            for wrong, words in (({**tls, "ca": f"{work}/other.pem"}, "TLS: the server's certificate: "),
                                 ({**tls, "name": "elsewhere.test"}, "TLS: the server's certificate: hostname mismatch"),
                                 ({**tls, "ca": f"{work}/none"}, f"TLS: cannot read certificates from '{work}/none'"),
                                 ({**tls, "token": f"{work}/none"}, f"cannot read a token from '{work}/none'")):
                with Client("submit", s.address, **wrong) as c:
                    c.end(1)
                    assert words in c.lines("error")[0], c.lines("error")


if __name__ == "__main__":
    import harness
    harness.main(globals())
