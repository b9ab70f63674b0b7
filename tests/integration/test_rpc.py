"""The gRPC face as a foreign client sees it: python3-grpcio against the server with flow and broker."""
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402
import h2raw  # noqa: E402
import rpc  # noqa: E402
from rpc import Client, Server, grpc, pb, refused  # noqa: E402


def _both(**options):
    """A server and a registered client; stops both at the end of the with statement."""
    class Both:
        def __enter__(self):
            self.server = Server(**options)
            self.client = Client(self.server.address).register()
            return self.server, self.client

        def __exit__(self, *details):
            self.client.close()
            self.server.__exit__(*details)
    return Both()


def payload_and_headers_arrive_unchanged():
    with _both() as (_, client):
        payload = bytes(range(256)) * 100
        headers = {"job_type": "t", "": "empty name", "empty": "", "ø": "smørrebrød \U0001f980", "__producer_id": "forged"}
        number = client.submit(payload, headers)
        message = client.pull()
        equal(message.message_id, number, "id")
        equal(message.payload, payload, "payload")
        equal(dict(message.headers), {**headers, "__producer_id": client.producer}, "headers")
        equal(message.lease_duration_ms, 30000, "lease")
        client.ack(message)
        client.submit()
        empty = client.pull()
        equal((empty.payload, dict(empty.headers)), (b"", {"__producer_id": client.producer}), "an empty message")
        client.submit(b"", {"a\0b": "c\0d"})
        equal(dict(client.pull().headers)["a\0b"], "c\0d", "a text with a NUL")


def ids_are_counted_from_zero():
    with _both() as (server, client):
        equal((client.producer, client.consumer), ("producer-0", "consumer-0"))
        with Client(server.address).register() as other:
            equal((other.producer, other.consumer), ("producer-1", "consumer-1"))


def strangers_are_refused():
    with _both() as (_, client):
        for stranger in ("", "producer-1", "producer-00", "producer--1", "consumer-0", "producer-18446744073709551616"):
            client.producer = stranger
            equal(refused(client.submit)[0], "PERMISSION_DENIED", stranger)
        for stranger in ("consumer-1", "consumer-00", "producer-0", "x"):
            equal(refused(client.pull, consumer=stranger)[0], "PERMISSION_DENIED", stranger)


def the_time_to_live_is_checked_and_presence_counts():
    with _both(ttl_ms=1) as (_, client):
        equal(refused(client.submit, ttl_ms=-1)[0], "INVALID_ARGUMENT")
        kept = client.submit(b"for ever", ttl_ms=0)
        client.submit(b"default")
        client.submit(b"huge", ttl_ms=2 ** 63 - 1)
        wait_until(lambda: client.stats().dead == 1, what="the default time to live to end")
        equal(client.pull().message_id, kept)
        entry = client.dead().entries[0]
        equal((entry.payload, entry.reason), (b"default", pb.DLQ_TTL_EXPIRED))


def a_pull_waits_and_a_timeout_is_no_error():
    with _both(pull_ms=300) as (_, client):
        started = time.monotonic()
        equal(client.pull(timeout_ms=100), None)
        assert 0.09 <= time.monotonic() - started < 5
        started = time.monotonic()
        equal(client.pull(timeout_ms=0), None, "0 is as long as the broker allows")
        equal(client.pull(timeout_ms=2 ** 62), None, "and more than that is cut to it")
        assert 0.55 <= time.monotonic() - started < 5
        waiting = client.stub.Pull.future(pb.PullRequest(consumer_id=client.consumer, timeout_ms=300), timeout=10)
        client.submit(b"wakes it")
        equal(waiting.result().message.payload, b"wakes it")


def waiting_pulls_are_served_in_their_order():
    with _both() as (server, client):
        waiting = []
        for number in range(20):
            waiting.append(client.stub.Pull.future(
                pb.PullRequest(consumer_id=client.consumer, timeout_ms=5000), timeout=10))
            with Client(server.address) as looker:
                wait_until(lambda n=number: looker.stub.Stats(pb.StatsRequest(), timeout=5) is not None)
        for number in range(20):
            client.submit(b"%d" % number)
        got = sorted(int(pull.result().message.payload) for pull in waiting)
        equal(got, list(range(20)), "each pull got one message")


def a_cancelled_pull_takes_nothing_with_it():
    with _both() as (server, client):
        for _ in range(50):
            waiting = client.stub.Pull.future(pb.PullRequest(consumer_id=client.consumer, timeout_ms=5000), timeout=10)
            waiting.cancel()
        with Client(server.address).register() as other:
            first = other.submit(b"first")
            other.submit(b"second")
            # A pull that was not yet cancelled there may have got it: then its lease decides. All were
            # cancelled before the submission was sent on another connection.
            message = other.pull()
            equal(message.message_id, first, "the order is kept")
            other.ack(message)
            other.ack(other.pull())
            equal(other.stats().in_flight, 0)


def a_deadline_ends_a_waiting_pull():
    with _both() as (_, client):
        equal(refused(client.pull, timeout_ms=5000, timeout=0.2)[0], "DEADLINE_EXCEEDED")
        client.submit(b"later")
        equal(client.pull().payload, b"later")


def settlements_answer_as_the_reference_does():
    with _both() as (server, client), Client(server.address).register() as other:
        client.submit(b"x")
        message = client.pull()
        bad = pb.PulledMessage(message_id=message.message_id, attempt_token="")
        for token in ("", "a_b", "ü", "x" * 129, "a b"):
            bad.attempt_token = token
            equal(refused(client.ack, bad)[0], "INVALID_ARGUMENT", token)
        bad.attempt_token = "well-formed"
        equal(refused(client.ack, bad)[0], "FAILED_PRECONDITION", "another token of this message")
        equal(refused(client.ack, message, consumer="consumer-9")[0], "PERMISSION_DENIED", "unknown consumer")
        equal(refused(client.ack, message, consumer=other.consumer)[0], "PERMISSION_DENIED", "another consumer")
        unknown = pb.PulledMessage(message_id="nothing", attempt_token=message.attempt_token)
        equal(refused(client.ack, unknown)[0], "NOT_FOUND", "unknown message")
        client.ack(message)
        client.ack(message)  # the repetition is harmless
        equal(refused(client.nack, message)[0], "FAILED_PRECONDITION", "the opposite")
        equal(refused(client.ack, message, consumer=other.consumer)[0], "PERMISSION_DENIED")
        equal(client.stats().acked, 1, "acked once")


def failures_come_again_and_the_third_is_the_last():
    with _both() as (_, client):
        number = client.submit(b"bad", {"job_type": "t"})
        tokens = set()
        for attempt in range(3):
            message = client.pull()
            equal(message.message_id, number)
            tokens.add(message.attempt_token)
            client.nack(message, f"reason {attempt}")
        equal(len(tokens), 3, "tokens")
        equal(client.pull(timeout_ms=50), None)
        answer = client.dead()
        equal(answer.total_size, 1)
        entry = answer.entries[0]
        equal((entry.message_id, entry.payload, entry.retry_count, entry.reason),
              (number, b"bad", 3, pb.DLQ_MAX_RETRIES_EXCEEDED))
        equal(dict(entry.headers)["job_type"], "t")
        assert "reason 2" in entry.details, entry.details


def a_lease_that_runs_out_gives_the_message_to_another():
    with _both(lease_ms=100) as (_, client):
        client.submit(b"x")
        first = client.pull()
        equal(first.lease_duration_ms, 100)
        second = client.pull(timeout_ms=5000)
        equal(second.message_id, first.message_id)
        equal(refused(client.ack, first)[0], "FAILED_PRECONDITION", "too late")
        client.ack(second)


def leases_are_extended_where_that_is_on():
    with _both(lease_ms=400, extendable=1) as (_, client):
        client.submit(b"x")
        message = client.pull()
        request = pb.ExtendLeaseRequest(consumer_id=client.consumer, message_id=message.message_id,
                                        attempt_token=message.attempt_token)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            equal(client.stub.ExtendLease(request, timeout=5).lease_duration_ms, 400)
            time.sleep(0.05)
        client.ack(message)
    with _both() as (_, client):
        client.submit(b"x")
        message = client.pull()
        request.consumer_id, request.message_id = client.consumer, message.message_id
        request.attempt_token = message.attempt_token
        status, words = refused(client.stub.ExtendLease, request, timeout=5)
        equal(status, "FAILED_PRECONDITION")
        assert "broker.extendable_leases" in words, words


def dead_letters_are_listed_redriven_and_purged():
    with _both(max_attempts=1) as (_, client):
        numbers = [client.submit(b"%d" % n) for n in range(15)]
        for _ in numbers:
            client.nack(client.pull())
        equal([e.message_id for e in client.dead(limit=0).entries], numbers[:10], "10 by default, the oldest first")
        equal([e.message_id for e in client.dead(limit=1000, offset=12).entries], numbers[12:])
        equal(len(client.dead(limit=3, offset=-5).entries), 3, "a negative offset is 0")
        equal(client.stub.RedriveDlq(pb.RedriveDlqRequest(message_id=numbers[3]), timeout=5).redriven, 1)
        equal(client.pull().message_id, numbers[3])
        equal(client.stub.RedriveDlq(pb.RedriveDlqRequest(limit=2), timeout=5).redriven, 2)
        equal(client.stub.PurgeDlq(pb.PurgeDlqRequest(message_id=numbers[5]), timeout=5).purged, 1)
        status = refused(client.stub.PurgeDlq, pb.PurgeDlqRequest(message_id=numbers[5]), timeout=5)[0]
        equal(status, "NOT_FOUND")
        equal(refused(client.stub.RedriveDlq, pb.RedriveDlqRequest(message_id="x"), timeout=5)[0], "NOT_FOUND")
        equal(client.stub.PurgeDlq(pb.PurgeDlqRequest(), timeout=5).purged, 11)
        equal(client.dead().total_size, 0)


def a_reason_that_is_no_text_is_listed_as_one():
    with _both(max_attempts=1) as (_, client):
        nack = client.channel.unary_unary("/harbinger_rpc.Broker/Nack", lambda x: x, lambda x: x)
        for reason in (b"caf\xc3", b"\xff\xfebytes", "cut off in an \u00fc".encode() + "\u00fc".encode() * 600):
            client.submit(b"x")
            message = client.pull()
            nack(pb.NackRequest(consumer_id=client.consumer, message_id=message.message_id,
                                attempt_token=message.attempt_token).SerializeToString()
                 + b"\x22" + bytes([len(reason) & 127 | 128, len(reason) >> 7]) + reason, timeout=5)
        details = [entry.details for entry in client.dead().entries]
        equal(len(details), 3)
        assert "caf?" in details[0] and "??bytes" in details[1] and "\u00fc\u00fc" in details[2], details


def a_large_listing_is_cut_at_the_message_size():
    with _both(max_attempts=1, max_message=100000) as (_, client):
        for _ in range(5):
            client.submit(b"x" * 40000)
            client.nack(client.pull())
        answer = client.dead()
        equal((len(answer.entries), answer.total_size), (2, 5))


def durations_teach_the_order():
    with _both() as (_, client):
        for _ in range(40):
            for label, ms in (("slow", 900.5), ("medium", 50.0), ("fast", 2.0)):
                client.submit(b"", {"job_type": label})
                client.ack(client.pull(), ms)
        for label in ("slow", "medium", "fast"):
            client.submit(b"", {"job_type": label})
        order = [client.pull().headers["job_type"] for _ in range(3)]
        equal(order, ["fast", "medium", "slow"])


def a_whole_millisecond_count_teaches_too_and_the_finer_one_wins():
    with _both() as (_, client):
        for request_ms, finer, learned in ((0, None, 1), (7, None, 2), (-1, None, 2), (-1, 3.5, 3), (7, -1.0, 3),
                                           (10 ** 9, None, 3)):
            client.submit(b"", {"job_type": "t"})
            message = client.pull()
            request = pb.AckRequest(consumer_id=client.consumer, message_id=message.message_id,
                                    attempt_token=message.attempt_token, processing_time_ms=request_ms)
            if finer is not None:
                request.duration_ms = finer
            client.stub.Ack(request, timeout=5)
            equal(client.stats().learned, learned, f"{request_ms} {finer}")


def a_full_broker_says_so():
    with _both(max_messages=2) as (_, client):
        client.submit(b"1")
        client.submit(b"2")
        equal(refused(client.submit, b"3")[0], "RESOURCE_EXHAUSTED")
        client.ack(client.pull())
        client.submit(b"3")


# --- streams --------------------------------------------------------------------------------------

class _Requests:
    """The upper side of a stream, fed by hand."""

    def __init__(self, *first):
        self.items, self.ended, self.more = list(first), False, threading.Condition()

    def send(self, item):
        with self.more:
            self.items.append(item)
            self.more.notify()

    def end(self):
        with self.more:
            self.ended = True
            self.more.notify()

    def __iter__(self):
        return self

    def __next__(self):
        with self.more:
            self.more.wait_for(lambda: self.items or self.ended)
            if not self.items:
                raise StopIteration
            return self.items.pop(0)


def many_submissions_over_one_stream():
    with _both(max_messages=1000) as (_, client):
        requests = [pb.SubmitRequest(producer_id=client.producer, payload=b"%d" % n) for n in range(1000)]
        requests.insert(500, pb.SubmitRequest(producer_id="nobody"))
        requests.append(pb.SubmitRequest(producer_id=client.producer))
        results = [r for batch in client.stub.SubmitStream(iter(requests), timeout=20) for r in batch.results]
        equal(len(results), 1002)
        equal(results[500].status, grpc.StatusCode.PERMISSION_DENIED.value[0])
        equal(results[1001].status, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
        equal(len({r.message_id for r in results if r.status == 0}), 1000)
        equal(client.pull().message_id, results[0].message_id)


def what_comes_together_goes_out_together():
    with _both() as (server, client), h2raw.Raw(server.port) as raw:
        for number in range(5):
            client.submit(b"%d" % number)
        raw.open("Work", pb.WorkRequest(consumer_id=client.consumer, credit=5).SerializeToString(), end=False)
        stream = raw.open("SubmitStream", end=False)
        one = raw.data(stream, pb.SubmitRequest(producer_id=client.producer).SerializeToString(), end=False)
        raw.socket.sendall(one * 3)
        sizes = []
        while len(sizes) < 2:
            kind, _, _, payload = raw.read()
            if kind == h2raw.DATA:
                equal(int.from_bytes(payload[1:5], "big"), len(payload) - 5, "one message")
                body = payload[5:]
                sizes.append(len(pb.WorkResponse.FromString(body).deliveries) if not sizes
                             else len(pb.SubmitResults.FromString(body).results))
        equal(sizes, [5, 3])


def a_work_stream_gives_what_its_credit_allows():
    with _both() as (_, client):
        for number in range(10):
            client.submit(b"%d" % number)
        up = _Requests(pb.WorkRequest(consumer_id=client.consumer, credit=3))
        down = client.stub.Work(up, timeout=20)
        first = list(next(down).deliveries)
        while len(first) < 3:
            first += next(down).deliveries
        equal([m.payload for m in first], [b"0", b"1", b"2"])
        equal(client.stats().in_flight, 3, "no more than the credit")
        up.send(pb.WorkRequest(credit=1, settlements=[pb.Settlement(
            message_id=first[1].message_id, attempt_token=first[1].attempt_token, duration_ms=1.5)]))
        equal(next(down).deliveries[0].payload, b"3")
        up.send(pb.WorkRequest(settlements=[pb.Settlement(message_id="x", attempt_token="y")]))
        result = next(down).results[0]
        equal((result.status, result.message_id), (grpc.StatusCode.NOT_FOUND.value[0], "x"))
        up.end()  # done in order: what it has not settled goes back as it was
        equal(list(down), [])
        equal((client.stats().in_flight, client.stats().waiting, client.stats().nacked), (0, 9, 0))
        equal([client.pull().payload for _ in range(3)], [b"0", b"2", b"3"], "in their old order")


def a_work_stream_that_breaks_fails_what_it_had():
    with _both() as (server, client):
        client.submit(b"x")
        with Client(server.address).register() as other:
            up = _Requests(pb.WorkRequest(consumer_id=other.consumer, credit=1))
            down = other.stub.Work(up, timeout=20)
            equal(next(down).deliveries[0].payload, b"x")
            down.cancel()
            up.end()
        message = client.pull(timeout_ms=5000)
        equal(message.payload, b"x")
        equal(client.stats().nacked, 1)


def too_much_credit_is_refused():
    with _both() as (_, client):
        for credits in ((1001,), (600, 600), (2 ** 32 - 1, 1)):
            up = _Requests(*(pb.WorkRequest(consumer_id=client.consumer, credit=n) for n in credits))
            equal(refused(list, client.stub.Work(up, timeout=10))[0], "INVALID_ARGUMENT", str(credits))
            up.end()


def streams_share_in_turn():
    with _both() as (_, client):
        nothing = [pb.Settlement(message_id="x", attempt_token="y")]  # its answer says that the stream is open
        ups = [_Requests(pb.WorkRequest(consumer_id=client.consumer, credit=100, settlements=nothing))
               for _ in range(4)]
        downs = [client.stub.Work(up, timeout=20) for up in ups]
        for down in downs:
            equal(len(next(down).results), 1)
        for _ in range(40):
            client.submit(b"x")
        for down in downs:
            got = 0
            while got < 10:
                got += len(next(down).deliveries)
            equal(got, 10)
        for up in ups:
            up.end()


# --- what clients of gRPC expect ------------------------------------------------------------------

def unknown_methods_and_compression_are_unimplemented():
    with _both() as (_, client):
        call = client.channel.unary_unary("/harbinger_rpc.Broker/Nothing", lambda x: x, lambda x: x)
        equal(refused(call, b"", timeout=5)[0], "UNIMPLEMENTED")
        call = client.channel.unary_unary("/other.Service/Submit", lambda x: x, lambda x: x)
        equal(refused(call, b"", timeout=5)[0], "UNIMPLEMENTED")
        status, words = refused(client.stub.Submit, pb.SubmitRequest(producer_id=client.producer, payload=b"x" * 1000),
                                timeout=5, compression=grpc.Compression.Gzip)
        equal(status, "UNIMPLEMENTED")
        assert "compress" in words, words


def what_cannot_be_decoded_is_refused():
    with _both() as (_, client):
        call = client.channel.unary_unary("/harbinger_rpc.Broker/Submit", lambda x: x, lambda x: x)
        equal(refused(call, b"\xff\xff\xff", timeout=5)[0], "INTERNAL")
        entry = b"\x0a\x01\xff\x12\x01x"  # a header whose name is no UTF-8
        body = b"\x0a\x0aproducer-0\x1a%c%s" % (len(entry), entry)
        equal(refused(call, body, timeout=5)[0], "INVALID_ARGUMENT")


def small_requests_that_would_grow_are_refused():
    with _both() as (server, client):
        before = _peak_kib(server)
        call = client.channel.stream_stream("/harbinger_rpc.Broker/Work", lambda x: x, lambda x: x)
        equal(refused(list, call(iter([b"\x1a\x00" * 2000000]), timeout=20)), ("INTERNAL", "the request cannot be decoded"))
        if harness.PLAIN:
            assert _peak_kib(server) - before < 100000, _peak_kib(server)


def connections_that_say_nothing_are_cut():
    with _both(idle_ms=300) as (server, client), h2raw.Raw(server.port) as raw:
        kinds = []
        while (frame := raw.read()) is not None:
            kinds.append(frame[0])
        equal(kinds[-1], h2raw.GOAWAY)
        client.submit(b"another connection")
        waiting = client.pull(timeout_ms=1)
        equal(waiting.payload, b"another connection")
        equal(client.pull(timeout_ms=900), None, "a waiting pull is not idle")


def unknown_fields_are_skipped():
    with _both() as (_, client):
        call = client.channel.unary_unary("/harbinger_rpc.Broker/Submit", lambda x: x, lambda x: x)
        call(pb.SubmitRequest(producer_id=client.producer, payload=b"p", headers={"a": "b"}).SerializeToString()
             + b"\x70\x07" + b"\x79" + bytes(8) + b"\x7a\x03abc" + b"\x7d" + bytes(4), timeout=5)
        message = client.pull()
        equal((message.payload, message.headers["a"]), (b"p", "b"))


def large_messages_are_refused_and_the_limit_itself_is_not():
    with _both(max_message=10000) as (_, client):
        overhead = len(pb.SubmitRequest(producer_id=client.producer, payload=b"x" * 9000).SerializeToString()) - 9000
        client.submit(b"x" * (10000 - overhead))
        status, words = refused(client.submit, b"x" * (10001 - overhead))
        equal(status, "RESOURCE_EXHAUSTED")
        assert "10000" in words, words
        equal(len(client.pull().payload), 10000 - overhead)


def large_metadata_is_refused():
    with _both() as (_, client):
        call = lambda: client.stub.Stats(pb.StatsRequest(), timeout=5, metadata=[("x", "y" * 20000)])  # noqa: E731
        assert refused(call)[0] in ("RESOURCE_EXHAUSTED", "INTERNAL")
        client.stats()


def four_mebibytes_go_both_ways():
    with _both() as (server, _):
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with Client(server.address, options=options).register() as client:
            payload = bytes(4 * 1024 * 1024 - 200)
            client.submit(payload)
            equal(client.pull().payload, payload)


def a_thousand_parked_pulls_are_all_served():
    with _both() as (server, client):
        pulls = [client.stub.Pull.future(pb.PullRequest(consumer_id=client.consumer, timeout_ms=5000), timeout=30)
                 for _ in range(1000)]
        with Client(server.address).register() as other:
            for number in range(1000):
                other.submit(b"%d" % number)
        got = {int(pull.result().message.payload) for pull in pulls if not pull.result().timed_out}
        equal(len(got), 1000)


def a_client_that_does_not_read_stalls_nobody_else():
    with _both(max_held=1000000) as (server, client):
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
        ping = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)
        with socket.create_connection(("127.0.0.1", server.port)) as deaf:
            deaf.setblocking(False)
            sent = 0
            try:
                deaf.send(preface)
                for _ in range(20000):
                    sent += deaf.send(ping * 50)
            except (BlockingIOError, ConnectionError):
                pass  # it is not read from, or was cut
            for _ in range(50):
                client.submit(b"x")
                client.ack(client.pull())


def _peak_kib(server):
    """The most memory that the server has had, in KiB."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0])


def pulls_of_a_client_that_does_not_read_wait_until_it_does():
    with _both() as (server, client), h2raw.Raw(server.port, window=0) as deaf:
        body = pb.PullRequest(consumer_id=client.consumer, timeout_ms=5000).SerializeToString()
        for _ in range(60):
            deaf.open("Pull", body)
        wait_until(lambda: client.stub.Stats(pb.StatsRequest()) is not None)
        for _ in range(60):
            client.submit(bytes(100000))
        taken = client.stats().in_flight
        assert 10 <= taken < 15, taken  # a mebibyte
        for _ in range(60 - taken):
            client.ack(client.pull(timeout_ms=5000))
        equal(client.pull(timeout_ms=1), None)
        deaf.close()
        wait_until(lambda: client.stats().in_flight == 0, what="what it never got to come back")
        equal((client.stats().waiting, client.stats().nacked), (taken, 0))


def pulls_that_had_to_wait_for_their_client_are_served():
    with _both() as (server, client), h2raw.Raw(server.port, window=0) as slow:
        body = pb.PullRequest(consumer_id=client.consumer, timeout_ms=5000).SerializeToString()
        streams = [slow.open("Pull", body) for _ in range(30)]
        for _ in range(30):
            client.submit(bytes(100000))
        wait_until(lambda: client.stats().in_flight >= 10)
        slow.grant(0, 10000000)
        for stream in streams:
            slow.grant(stream, 200000)
        wait_until(lambda: client.stats().in_flight == 30, limit=4)
        sizes = {}
        while sum(sizes.values()) < 30 * 100000:
            kind, _, stream, payload = slow.read()
            if kind == h2raw.DATA:
                sizes[stream] = sizes.get(stream, 0) + len(payload)
        equal(len(sizes), 30)


def what_a_broken_stream_was_not_sent_has_not_failed():
    with _both() as (server, client), h2raw.Raw(server.port, window=250000) as slow:
        for number in range(5):
            client.submit(b"%d" % number + bytes(100000))
        slow.grant(0, 10000000)
        slow.open("Work", pb.WorkRequest(consumer_id=client.consumer, credit=5).SerializeToString(), end=False)
        wait_until(lambda: client.stats().in_flight == 5)
        slow.close()
        wait_until(lambda: client.stats().in_flight == 0)
        equal((client.stats().waiting, client.stats().nacked), (5, 2), "two had been sent, and a part of the third")
        equal([client.pull().payload[:1] for _ in range(5)], [b"2", b"3", b"4", b"1", b"0"])


def a_stream_that_is_always_behind_costs_no_memory():
    with _both() as (server, client), h2raw.Raw(server.port, window=300000) as slow:
        slow.grant(0, 2 ** 30)
        work = slow.open("Work", pb.WorkRequest(consumer_id=client.consumer, credit=20).SerializeToString(), end=False)
        for _ in range(20):
            client.submit(bytes(100000))
        wait_until(lambda: client.stats().in_flight >= 10)
        before, data = _peak_kib(server), b""
        for _ in range(300):
            while len(data) < 5 or len(data) < 5 + int.from_bytes(data[1:5], "big"):
                kind, _, _, payload = slow.read()
                if kind == h2raw.DATA:
                    data += payload
                    slow.grant(work, len(payload))
            end = 5 + int.from_bytes(data[1:5], "big")
            got, data = pb.WorkResponse.FromString(data[5:end]), data[end:]
            client.submit(bytes(100000))
            slow.send(work, pb.WorkRequest(credit=1, settlements=[
                pb.Settlement(message_id=m.message_id, attempt_token=m.attempt_token) for m in got.deliveries
            ]).SerializeToString())
        if harness.PLAIN:
            assert _peak_kib(server) - before < 10000, (before, _peak_kib(server))


def answers_that_nobody_reads_are_bounded():
    with _both(max_attempts=1, max_held=4000000) as (server, client), h2raw.Raw(server.port, window=0) as deaf:
        for _ in range(10):
            client.submit(bytes(100000))
            client.nack(client.pull())
        before = _peak_kib(server)
        body = pb.InspectDlqRequest(limit=100).SerializeToString()
        for _ in range(500):
            deaf.open("InspectDlq", body)
        for _ in range(50):
            client.ack(client.pull()) if client.submit() else None
        if harness.PLAIN:
            assert _peak_kib(server) - before < 30000, (before, _peak_kib(server))


def clients_that_die_in_mid_stream_leave_nothing_behind():
    with _both() as (server, client):
        code = f"""
import sys; sys.path.insert(0, {str(harness.ROOT / 'tests/lib')!r})
import rpc, time
client = rpc.Client({server.address!r}).register()
def requests():
    yield rpc.pb.WorkRequest(consumer_id=client.consumer, credit=5)
    time.sleep(60)
down = client.stub.Work(requests())
got = 0
while got < 5: got += len(next(down).deliveries)
print("has", flush=True)
time.sleep(60)
"""
        for _ in range(5):
            client.submit(b"x")
        with subprocess.Popen(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE, text=True) as process:
            equal(process.stdout.readline(), "has\n")
            process.send_signal(signal.SIGKILL)
            process.wait()
        wait_until(lambda: client.stats().in_flight == 0, what="the messages to come back")
        equal(client.stats().waiting, 5)


def draining_refuses_submissions_and_serves_the_rest():
    with _both() as (server, client):
        client.submit(b"x")
        equal(client.stub.Drain(pb.DrainRequest(), timeout=5).waiting, 1)
        equal(refused(client.submit)[0], "UNAVAILABLE")
        equal(client.stats().draining, True)
        client.ack(client.pull())
        equal(server.stop(), 0)


def a_stop_ends_what_idles_and_waits_for_what_works():
    with _both() as (server, client):
        client.submit(b"x")
        busy = _Requests(pb.WorkRequest(consumer_id=client.consumer, credit=1))
        down = client.stub.Work(busy, timeout=20)
        message, = next(down).deliveries
        nothing = [pb.Settlement(message_id="x", attempt_token="y")]
        idle = client.stub.Work(_Requests(pb.WorkRequest(consumer_id=client.consumer, credit=1, settlements=nothing)),
                                timeout=20)
        equal(len(next(idle).results), 1)
        with grpc.insecure_channel(server.address) as channel:
            watch = rpc.health_grpc.HealthStub(channel).Watch(rpc.health.HealthCheckRequest(), timeout=10)
            equal(next(watch).status, 1)
            server.process.terminate()
            equal(next(watch).status, 2, "not serving")
            equal(refused(next, watch)[0], "UNAVAILABLE")
        equal(refused(next, idle)[0], "UNAVAILABLE")
        busy.send(pb.WorkRequest(settlements=[
            pb.Settlement(message_id=message.message_id, attempt_token=message.attempt_token)]))
        equal(refused(next, down)[0], "UNAVAILABLE")
        with socket.socket() as late:
            assert late.connect_ex(("127.0.0.1", server.port)) != 0, "nobody listens any more"


def a_stop_answers_waiting_pulls():
    with _both() as (server, client):
        waiting = client.stub.Pull.future(pb.PullRequest(consumer_id=client.consumer, timeout_ms=5000), timeout=10)
        wait_until(lambda: client.stats() is not None)
        server.process.terminate()
        equal(waiting.result().timed_out, True)
        equal(server.process.wait(10), 0)


def health_is_told():
    with _both() as (server, client):
        with grpc.insecure_channel(server.address) as channel:
            stub = rpc.health_grpc.HealthStub(channel)
            check = lambda name: stub.Check(rpc.health.HealthCheckRequest(service=name), timeout=5).status  # noqa: E731
            equal((check(""), check("harbinger_rpc.Broker")), (1, 1), "serving")
            equal(refused(check, "other")[0], "NOT_FOUND")
            watch = stub.Watch(rpc.health.HealthCheckRequest(), timeout=10)
            equal(next(watch).status, 1)
            equal(next(stub.Watch(rpc.health.HealthCheckRequest(service="other"), timeout=10)).status, 3)
            client.stub.Drain(pb.DrainRequest(), timeout=5)
            equal(next(watch).status, 2, "not serving")
            equal(check(""), 2)


# --- TLS and token --------------------------------------------------------------------------------

def _certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", f"{folder}/key.pem",
                    "-out", f"{folder}/cert.pem"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tls_and_a_token_guard_the_door():
    with tempfile.TemporaryDirectory() as folder:
        _certificate(folder)
        token = pathlib.Path(folder, "token")
        token.write_text("secret\n", encoding="ascii")
        options = {"certificate": f"{folder}/cert.pem", "key": f"{folder}/key.pem", "token_file": token}
        with Server(**options) as server:
            credentials = grpc.ssl_channel_credentials(pathlib.Path(folder, "cert.pem").read_bytes())
            with Client(server.address, credentials) as client:
                equal(refused(client.register)[0], "UNAUTHENTICATED", "no token")
                client.metadata = [("authorization", "Bearer secreT")]
                equal(refused(client.register)[0], "UNAUTHENTICATED", "a wrong token")
                client.metadata = [("authorization", "Bearer secret")]
                client.register()
                client.submit(b"x" * 100000)
                equal(len(client.pull().payload), 100000)
                stub = rpc.health_grpc.HealthStub(client.channel)
                equal(stub.Check(rpc.health.HealthCheckRequest(), timeout=5).status, 1, "health needs no token")
            with Client(server.address) as plain:
                equal(refused(plain.register)[0], "UNAVAILABLE", "in the clear")


def bad_files_are_named():
    for options, words in (({"certificate": "/nonexistent"}, "/nonexistent"), ({"token_file": "/dev/null"}, "/dev/null"),
                           ({"listen": "nonsense"}, "nonsense"), ({"listen": "127.0.0.1:70000"}, "70000")):
        arguments = [f"{name}={value}" for name, value in options.items()]
        done = subprocess.run([rpc.SERVER, *arguments], stderr=subprocess.PIPE, text=True, check=False, timeout=10)
        assert done.returncode == 1 and words in done.stderr, done.stderr


if __name__ == "__main__":
    harness.main(globals())
