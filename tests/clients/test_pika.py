"""pika, unmodified: what its BlockingConnection sees of a work queue, on RabbitMQ and through the proxy."""
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import arm as arms  # noqa: E402
import harness  # noqa: E402
import pika  # noqa: E402
from harness import equal, wait_until  # noqa: E402
from pika.exceptions import ChannelClosedByBroker  # noqa: E402

PROXY = arms.NAME == "proxy"


class _Got:
    """One delivery, as a consumer got it."""

    def __init__(self, channel, method, properties, body):
        self.channel, self.method, self.properties, self.body = channel, method, properties, body
        self.tag, self.redelivered = method.delivery_tag, method.redelivered


class _Case(arms.Arm):
    """An arm with a producer, and workers' connections that are closed at its end."""

    def __init__(self, settings=None, **options):
        super().__init__({"intake.channels": 1, **(settings or {})}, **options)  # what comes over several may overtake
        self.open, self.published = [], 0
        self.producer = harness.connect().channel()
        self.producer.confirm_delivery()

    def publish(self, count=1, **properties):
        """Numbered bodies."""
        properties = pika.BasicProperties(**{"delivery_mode": 2, **properties})
        for number in range(self.published, self.published + count):
            self.send(b"%d" % number, properties)
        self.published += count

    def send(self, body, properties=None, exchange="", key=None):
        self.producer.basic_publish(exchange, self.intake if key is None else key, body, properties, mandatory=True)

    def connect(self, **options):
        """A worker's connection."""
        self.open.append(harness.connect(self.workers, **options))
        return self.open[-1]

    def channel(self, prefetch=0):
        channel = self.connect().channel()
        if prefetch:
            channel.basic_qos(prefetch_count=prefetch)
        return channel

    def consume(self, channel, queue=None, **options):
        """Consumes into a list; returns (the list, the consumer's tag)."""
        into = []

        def take(*delivery):
            into.append(_Got(*delivery))
        tag = channel.basic_consume(queue or self.work, take, **options)
        return into, tag

    def gather(self, into, count, channel=None):
        """Until the list has `count` deliveries."""
        connection = channel.connection if channel else self.open[-1]

        def enough():
            connection.process_data_events(0.02)
            return len(into) >= count
        wait_until(enough, what=lambda: f"{count} deliveries, not {len(into)}")
        return into

    def exactly(self, into, count, channel):
        """`count` deliveries, and no more in front of an answer that was asked for after them."""
        self.gather(into, count, channel)
        wait_until(lambda: self.could_deliver(self.producer), what="messages that could be delivered")
        for _ in range(3):
            channel.queue_declare(self.work, passive=True)
            channel.connection.process_data_events(0.01)
        equal(len(into), count, "deliveries")
        return into

    def get(self, channel, queue=None, **options):
        """basic.get, again until there is one."""
        got = []

        def one():
            got[:] = channel.basic_get(queue or self.work, **options)
            return got[0] is not None
        wait_until(one, what="a message to get")
        return _Got(channel, *got)

    def close_workers(self):
        for connection in self.open:
            if connection.is_open:
                connection.close()

    def expect_left(self, count):
        """So many messages are there when no worker has any."""
        self.close_workers()
        wait_until(lambda: self.left(self.producer) == count,
                   what=lambda: f"{count} messages left, not {self.left(self.producer)}")

    def __exit__(self, *details):
        self.close_workers()
        self.producer.connection.close()
        super().__exit__(*details)


def _bodies(got):
    return [int(one.body) for one in got]


def _refused(code, ask):
    """`ask` closes its channel with that code."""
    try:
        ask()
    except ChannelClosedByBroker as closed:
        equal(closed.reply_code, code, "reply code")
        return closed.reply_text
    raise AssertionError(f"{code} was wanted")


# --- settling -----------------------------------------------------------------------------------

def an_ack_settles():
    with _Case() as case:
        case.publish(5)
        channel = case.channel(prefetch=1)
        got, _ = case.consume(channel)
        for number in range(5):
            one = case.exactly(got, number + 1, channel)[-1]
            equal((int(one.body), one.redelivered), (number, False), "delivery")
            channel.basic_ack(one.tag)
        case.expect_left(0)


def what_is_not_acked_comes_again_when_the_connection_closes():
    with _Case() as case:
        case.publish(5)
        channel = case.channel(prefetch=5)
        got, _ = case.consume(channel)
        case.gather(got, 5)
        channel.basic_ack(got[1].tag)
        channel.connection.close()
        channel = case.channel(prefetch=5)
        again, _ = case.consume(channel)
        case.exactly(again, 4, channel)
        equal(sorted(_bodies(again)), [0, 2, 3, 4], "what came again")
        assert all(one.redelivered for one in again), "redelivered"
        channel.basic_ack(again[-1].tag, multiple=True)
        case.expect_left(0)


def what_is_not_acked_comes_again_when_the_channel_closes():
    with _Case() as case:
        case.publish(3)
        channel = case.channel(prefetch=3)
        got, _ = case.consume(channel)
        case.gather(got, 3)
        connection = channel.connection
        channel.close()
        channel = connection.channel()
        again, _ = case.consume(channel)
        case.exactly(again, 3, channel)
        equal([one.redelivered for one in again], [True] * 3, "redelivered")
        equal(sorted(_bodies(again)), [0, 1, 2], "what came again")
        channel.basic_ack(0, multiple=True)
        case.expect_left(0)


def what_is_not_acked_comes_again_when_the_socket_is_cut():
    with _Case() as case:
        case.publish(3)
        channel = case.channel(prefetch=3)
        case.gather(case.consume(channel)[0], 3)
        channel.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)  # pylint: disable=protected-access
        case.open.pop()
        channel = case.channel()
        again, _ = case.consume(channel)
        case.exactly(again, 3, channel)
        equal([one.redelivered for one in again], [True] * 3, "redelivered")
        channel.basic_ack(0, multiple=True)
        case.expect_left(0)


def a_nack_with_requeue_delivers_again():
    with _Case() as case:
        case.publish(1)
        channel = case.channel(prefetch=1)
        got, _ = case.consume(channel)
        for turn in range(2):
            one = case.exactly(got, turn + 1, channel)[-1]
            equal(one.redelivered, turn > 0, "redelivered")
            channel.basic_nack(one.tag, requeue=True)
        case.gather(got, 3)
        equal(len({one.tag for one in got}), 3, "delivery tags")
        channel.basic_ack(got[-1].tag)
        case.expect_left(0)


def a_nack_of_several_delivers_all_of_them_again():
    with _Case() as case:
        case.publish(6)
        channel = case.channel(prefetch=6)
        got, _ = case.consume(channel)
        case.gather(got, 6)
        channel.basic_nack(got[3].tag, multiple=True, requeue=True)
        case.exactly(got, 10, channel)
        equal(sorted(_bodies(got[6:])), [0, 1, 2, 3], "what came again")
        channel.basic_ack(0, multiple=True)
        case.expect_left(0)


def a_reject_with_requeue_delivers_again():
    with _Case() as case:
        case.publish(1)
        channel = case.channel(prefetch=1)
        got, _ = case.consume(channel)
        channel.basic_reject(case.gather(got, 1)[0].tag, requeue=True)
        assert case.exactly(got, 2, channel)[1].redelivered, "redelivered"
        channel.basic_ack(got[1].tag)
        case.expect_left(0)


def a_reject_without_requeue_is_dead_lettered():
    with _Case() as case:
        case.publish(3)
        channel = case.channel(prefetch=3)
        got, _ = case.consume(channel)
        case.gather(got, 3)
        channel.basic_reject(got[0].tag, requeue=False)
        channel.basic_nack(got[2].tag, multiple=True, requeue=False)
        wait_until(lambda: harness.ready_count(case.producer, arms.DEAD) == 3, what="three dead letters")
        dead = harness.get_all(case.producer, arms.DEAD)
        equal(sorted(int(body) for _, _, body in dead), [0, 1, 2], "dead letters")
        for _, properties, _ in dead:
            death = properties.headers["x-death"][0]
            equal((death["queue"], death["reason"], death["count"]), (case.intake, "rejected", 1), "x-death")
        case.expect_left(0)


def a_worker_that_stops_in_order_has_failed_at_nothing():
    """pika requeues what it has not begun, one by one, before it cancels: as often as a worker is replaced."""
    with _Case({"broker.max_attempts": 2}) as case:
        case.publish(30)
        seen = []
        for _ in range(6):
            connection = case.connect()
            channel = connection.channel()
            channel.basic_qos(prefetch_count=20)
            method, _, body = next(channel.consume(case.work, inactivity_timeout=15))
            assert method is not None, "nothing comes any more"
            seen.append(int(body))
            channel.basic_ack(method.delivery_tag)
            wait_until(lambda channel=channel, connection=connection:
                       connection.process_data_events(0.02) or channel.get_waiting_message_count() >= 19,
                       what="a prefetch full of messages")
            channel.cancel()
            connection.close()
        got, _ = case.consume(case.channel(prefetch=24))
        case.exactly(got, 24, case.open[-1].channel())
        equal(sorted(seen + _bodies(got)), list(range(30)), "all of them, once")


def an_ack_of_several_settles_up_to_its_tag():
    with _Case() as case:
        case.publish(10)
        channel = case.channel(prefetch=10)
        got, _ = case.consume(channel)
        case.gather(got, 10)
        channel.basic_ack(got[4].tag)  # a hole before it
        channel.basic_ack(got[6].tag, multiple=True)
        case.expect_left(3)


def an_ack_of_tag_0_settles_all():
    with _Case() as case:
        case.publish(10)
        channel = case.channel(prefetch=7)
        got, _ = case.consume(channel)
        case.exactly(got, 7, channel)
        channel.basic_ack(0, multiple=True)
        case.exactly(got, 10, channel)
        case.expect_left(3)


def an_unknown_tag_closes_the_channel_alone():
    with _Case() as case:
        case.publish(2)
        connection = case.connect()
        other, channel = connection.channel(), connection.channel()
        got, _ = case.consume(channel)
        case.gather(got, 2)

        def bad_ack():
            channel.basic_ack(77)
            channel.queue_declare(case.work, passive=True)
        text = _refused(406, bad_ack)
        assert "PRECONDITION_FAILED" in text and "unknown delivery tag" in text, text
        again, _ = case.consume(other)
        case.exactly(again, 2, other)
        equal([one.redelivered for one in again], [True, True], "redelivered")
        other.basic_ack(0, multiple=True)
        case.expect_left(0)


def a_second_ack_closes_the_channel():
    for settle in ("ack", "nack", "reject"):
        with _Case() as case:
            case.publish(2)
            channel = case.channel()
            got, _ = case.consume(channel)
            case.gather(got, 2)

            def twice(channel=channel, got=got, settle=settle, case=case):
                channel.basic_ack(got[0].tag)
                getattr(channel, "basic_" + settle)(got[0].tag)
                channel.queue_declare(case.work, passive=True)
            _refused(406, twice)
            case.expect_left(1)


def recover_delivers_again():
    with _Case() as case:
        case.publish(3)
        channel = case.channel()
        got, _ = case.consume(channel)
        case.gather(got, 3)
        channel.basic_ack(got[1].tag)
        channel.basic_recover(requeue=True)
        case.exactly(got, 5, channel)
        equal(sorted(_bodies(got[3:])), [0, 2], "what came again")
        assert all(one.redelivered for one in got[3:]), "redelivered"
        channel.basic_ack(0, multiple=True)
        case.expect_left(0)


def transactions_commit_or_are_refused():
    with _Case() as case:
        case.publish(2)
        channel = case.channel()
        channel.tx_select()
        if PROXY:  # acks that end elsewhere than on this channel cannot be part of its transaction
            try:
                case.consume(channel)
            except pika.exceptions.ConnectionClosedByBroker as closed:
                equal(closed.reply_code, 540, "reply code")
                case.expect_left(2)
                return
            raise AssertionError("540 was wanted")
        got, _ = case.consume(channel)
        channel.basic_ack(case.gather(got, 2)[0].tag)
        channel.tx_commit()
        channel.basic_ack(got[1].tag)
        channel.tx_rollback()
        case.expect_left(1)


# --- basic.get ----------------------------------------------------------------------------------

def get_takes_one():
    with _Case() as case:
        case.publish(3)
        channel = case.channel()
        tags = []
        for number in range(3):
            one = case.get(channel)
            equal((int(one.body), one.redelivered), (number, False), "got")
            equal((one.method.exchange, one.method.routing_key), ("", case.intake), "published to")
            tags.append(one.tag)
        equal(channel.basic_get(case.work), (None, None, None), "an empty queue")
        channel.basic_nack(tags[0], requeue=True)
        again = case.get(channel)
        equal((int(again.body), again.redelivered), (0, True), "got again")
        channel.basic_ack(again.tag)
        channel.basic_ack(tags[2])
        case.expect_left(1)


def get_without_acks_settles_at_once():
    with _Case() as case:
        case.publish(2)
        case.get(case.channel(), auto_ack=True)
        case.expect_left(1)


def get_beside_a_consumer_gives_each_message_once():
    with _Case() as case:
        case.publish(20)
        channel = case.channel(prefetch=3)
        got, _ = case.consume(channel)
        case.exactly(got, 3, channel)
        polled = [case.get(channel) for _ in range(4)]
        for one in polled + got[:3]:
            channel.basic_ack(one.tag)
        case.exactly(got, 6, channel)
        equal(len(set(_bodies(got + polled))), 10, "different messages")
        equal(len({one.tag for one in got + polled}), 10, "different tags")
        case.expect_left(13)


# --- consumers ----------------------------------------------------------------------------------

def two_consumers_on_a_channel_share():
    with _Case() as case:
        channel = case.channel(prefetch=4)
        first, first_tag = case.consume(channel, consumer_tag="one")
        second, second_tag = case.consume(channel, consumer_tag="two")
        equal((first_tag, second_tag), ("one", "two"), "tags")
        case.publish(20)
        wait_until(lambda: channel.connection.process_data_events(0.02) or len(first) + len(second) == 8, what="8")
        equal((len(first), len(second)), (4, 4), "each up to its prefetch")
        equal({one.method.consumer_tag for one in first}, {"one"}, "the first's tag")
        equal({one.method.consumer_tag for one in second}, {"two"}, "the second's tag")
        tags = [one.tag for one in first + second]
        equal(sorted(tags), list(range(1, 9)), "delivery tags")
        channel.basic_ack(0, multiple=True)
        wait_until(lambda: channel.connection.process_data_events(0.02) or len(first) + len(second) == 16, what="16")
        equal(len(set(_bodies(first + second))), 16, "different messages")
        case.expect_left(12)


def consumers_on_several_channels_have_tags_of_their_own():
    with _Case() as case:
        connection, got = case.connect(), []
        channels = [connection.channel() for _ in range(5)]
        for channel in channels:
            channel.basic_qos(prefetch_count=2)
            got.append(case.consume(channel)[0])
        case.publish(10)
        wait_until(lambda: connection.process_data_events(0.02) or sum(map(len, got)) == 10, what="10")
        for into in got:
            equal([one.tag for one in into], [1, 2], "tags")
        channels[3].close()
        for channel in channels[:3] + channels[4:]:
            channel.basic_ack(2, multiple=True)

        def come_again():
            connection.process_data_events(0.02)
            return sum(map(len, got)) >= 12
        wait_until(come_again, what="the closed channel's two")
        again = [one for index in (0, 1, 2, 4) for one in got[index][2:]]
        equal(sorted(_bodies(again)), sorted(_bodies(got[3])), "what came again")
        for one in again:
            one.channel.basic_ack(one.tag)
        case.expect_left(0)


def cancel_stops_deliveries_and_keeps_what_is_unacked():
    with _Case() as case:
        case.publish(3)
        channel = case.channel()
        got, tag = case.consume(channel)
        case.gather(got, 3)
        channel.basic_cancel(tag)
        case.publish(2)
        case.exactly(got, 3, channel)
        channel.basic_ack(got[0].tag)
        channel.basic_ack(got[2].tag)
        again, _ = case.consume(channel)
        case.exactly(again, 2, channel)
        case.expect_left(3)


def a_deleted_queue_cancels_its_consumers():
    with _Case() as case:
        channel = case.channel()
        cancelled = []
        channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        _, tag = case.consume(channel)
        case.producer.queue_delete(case.work)
        wait_until(lambda: channel.connection.process_data_events(0.02) or cancelled, what="a cancel")
        equal(cancelled, [tag], "cancelled")
        case.producer.queue_declare("clients.deleted", exclusive=True)
        equal(channel.queue_declare("clients.own", exclusive=True).method.message_count, 0, "the channel lives")


def an_exclusive_consumer_is_alone():
    with _Case() as case:
        case.publish(2)
        channel = case.channel()
        got, _ = case.consume(channel, exclusive=True)
        other = channel.connection.channel()
        _refused(403, lambda: case.consume(other))
        case.exactly(got, 2, channel)
        channel.basic_ack(0, multiple=True)
        case.expect_left(0)


def a_consumer_of_higher_priority_is_served_first():
    with _Case() as case:
        low, high = case.channel(prefetch=1), case.channel(prefetch=3)
        few, _ = case.consume(low)
        many, _ = case.consume(high, arguments={"x-priority": 10})
        case.publish(3)
        case.gather(many, 3, high)
        case.exactly(few, 0, low)
        case.publish(1)
        case.exactly(few, 1, low)
        case.expect_left(4)


def a_missing_queue_is_404():
    with _Case() as case:
        channel = case.channel()
        _refused(404, lambda: case.consume(channel, queue="clients.missing"))
        _refused(404, lambda: case.channel().basic_get("clients.missing"))
        _refused(404, lambda: case.channel().queue_declare("clients.missing", passive=True))


def a_tag_in_use_ends_the_connection():
    with _Case() as case:
        connection = case.connect()
        case.consume(connection.channel(), consumer_tag="same")
        case.consume(connection.channel(), consumer_tag="same")  # another channel: allowed
        channel = connection.channel()
        case.consume(channel, consumer_tag="same")
        try:
            channel._impl._consumers.clear()  # pylint: disable=protected-access  # pika would refuse it itself
            channel._consumer_infos.clear()  # pylint: disable=protected-access
            case.consume(channel, consumer_tag="same")
        except pika.exceptions.ConnectionClosedByBroker as closed:
            equal(closed.reply_code, 530, "reply code")
            return
        raise AssertionError("530 was wanted")


# --- prefetch -----------------------------------------------------------------------------------

def prefetch_is_per_consumer():
    with _Case() as case:
        case.publish(20)
        channel = case.channel(prefetch=3)
        got, _ = case.consume(channel)
        case.exactly(got, 3, channel)
        channel.basic_qos(prefetch_count=5)  # for consumers to come
        case.exactly(got, 3, channel)
        later, _ = case.consume(channel)
        case.exactly(later, 5, channel)
        channel.basic_ack(got[0].tag)
        case.exactly(got, 4, channel)
        case.exactly(later, 5, channel)
        case.expect_left(19)


def a_channel_wide_prefetch_is_shared_and_changes_at_once():
    with _Case() as case:
        case.publish(20)
        channel = case.channel()
        channel.basic_qos(prefetch_count=3, global_qos=True)
        got, _ = case.consume(channel)
        case.exactly(got, 3, channel)
        later, _ = case.consume(channel)
        case.exactly(later, 0, channel)
        channel.basic_qos(prefetch_count=5, global_qos=True)

        def five():
            channel.connection.process_data_events(0.02)
            return len(got) + len(later) >= 5
        wait_until(five, what="two more")
        both = len(got) + len(later)
        channel.queue_declare(case.work, passive=True)
        equal(both, 5, "deliveries")
        channel.basic_qos(prefetch_count=2, global_qos=True)  # less than is out: nothing until four are acked
        channel.basic_ack(got[0].tag)
        channel.queue_declare(case.work, passive=True)
        channel.connection.process_data_events(0.02)
        equal(len(got) + len(later), 5, "deliveries at the lower limit")
        channel.basic_qos(prefetch_count=0, global_qos=True)  # no limit
        wait_until(lambda: channel.connection.process_data_events(0.02) or len(got) + len(later) == 20, what="all")
        case.expect_left(19)


def without_a_prefetch_everything_comes():
    with _Case() as case:
        case.publish(700)
        channel = case.channel()
        got, _ = case.consume(channel)
        seen = []
        while len(seen) < 700:  # a bound on what is unacked may show, but acks move it
            case.gather(got, 1)
            seen += _bodies(got)
            channel.basic_ack(got[-1].tag, multiple=True)
            got.clear()
        equal(sorted(seen), list(range(700)), "messages")
        case.expect_left(0)


def consuming_without_acks_settles_at_once():
    with _Case() as case:
        case.publish(30)
        channel = case.channel(prefetch=2)  # says nothing to a consumer without acks
        got, _ = case.consume(channel, auto_ack=True)
        case.exactly(got, 30, channel)
        equal(_bodies(got), list(range(30)), "order")
        case.expect_left(0)


# --- beside the work queue ----------------------------------------------------------------------

def own_queues_and_a_fanout_work_beside():
    with _Case() as case:
        channel = case.channel(prefetch=10)
        own = channel.queue_declare("", exclusive=True).method.queue
        assert own.startswith("amq.gen-"), own
        channel.exchange_declare("clients.fan", "fanout", auto_delete=True)
        channel.queue_bind(own, "clients.fan")
        jobs, _ = case.consume(channel)
        events, _ = case.consume(channel, own, auto_ack=True)
        case.publish(5)
        for number in range(5):
            channel.basic_publish("clients.fan", "", b"%d" % number)
        case.gather(jobs, 5)
        case.gather(events, 5)
        equal((_bodies(jobs), _bodies(events)), ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4]), "order")
        channel.basic_ack(jobs[-1].tag, multiple=True)
        case.expect_left(0)


def tags_of_two_queues_on_a_channel_are_one_sequence():
    with _Case() as case:
        channel = case.channel()
        own = channel.queue_declare("", exclusive=True).method.queue
        jobs, _ = case.consume(channel)
        others, _ = case.consume(channel, own)
        for number in range(10):
            case.publish(1)
            case.gather(jobs, number + 1)
            channel.basic_publish("", own, b"%d" % number)
            case.gather(others, number + 1)
        equal([one.tag for one in jobs], list(range(1, 21, 2)), "tags of the work queue")
        equal([one.tag for one in others], list(range(2, 22, 2)), "tags of the own queue")
        channel.basic_ack(others[1].tag)                        # 4
        channel.basic_nack(jobs[2].tag, requeue=True)           # 5 comes as 21
        channel.basic_ack(others[4].tag, multiple=True)         # up to 10, of both
        channel.basic_ack(jobs[6].tag, multiple=True)           # up to 13, of both; ends with a job
        channel.basic_nack(others[8].tag, multiple=True, requeue=True)  # 14 to 18 come again
        case.gather(jobs, 13)
        case.gather(others, 13)
        equal(sorted(_bodies(jobs[10:])), [2, 7, 8], "jobs that came again")
        equal(sorted(_bodies(others[10:])), [6, 7, 8], "others that came again")
        assert all(one.redelivered for one in jobs[10:] + others[10:]), "redelivered"
        equal(sorted(one.tag for one in jobs[10:] + others[10:]), list(range(21, 27)), "new tags")
        channel.basic_ack(0, multiple=True)
        equal(channel.queue_delete(own).method.message_count, 0, "ready in the own queue")
        case.expect_left(0)


def confirms_and_returns_pass():
    with _Case() as case:
        channel = case.channel(prefetch=1)
        channel.confirm_delivery()
        got, _ = case.consume(channel)
        for number in range(30):
            channel.basic_publish("", case.intake, b"%d" % number, mandatory=True)
        for number in range(30):
            channel.basic_ack(case.gather(got, number + 1)[-1].tag)
        equal(_bodies(got), list(range(30)), "order")
        try:
            channel.basic_publish("", "clients.missing", b"x", mandatory=True)
        except pika.exceptions.UnroutableError as error:
            equal(error.messages[0].body, b"x", "returned")
        else:
            raise AssertionError("nothing was returned")
        case.expect_left(0)


def a_result_is_there_before_its_job_is_settled():
    with _Case() as case:
        case.publish(50)
        case.producer.queue_declare("clients.results")
        case.producer.queue_purge("clients.results")
        channel = case.channel(prefetch=1)
        got, _ = case.consume(channel)
        for number in range(50):
            one = case.gather(got, number + 1)[-1]
            channel.basic_publish("", "clients.results", one.body)
            channel.basic_ack(one.tag)
        case.expect_left(0)
        equal(case.producer.queue_delete("clients.results").method.message_count, 50, "results")


# --- what a worker sees -------------------------------------------------------------------------

def _plain(value):
    """Without pika's own kind of long numbers."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def all_properties_arrive_as_they_were_sent():
    headers = {"job_type": "t", "void": None, "yes": True, "no": False, "int": -5, "long": 2 ** 40, "text": "smørrebrød",
               "bytes": b"\x00\xff", "list": [1, "two", [3, None]], "table": {"a": {"b": {"c": [True, None]}}},
               "empty": {}, "x" * 100: "y" * 300}
    sent = pika.BasicProperties(
        content_type="application/json", content_encoding="gzip", headers=headers, delivery_mode=2, priority=7,
        correlation_id="c", reply_to="r", expiration="600000", message_id="m", timestamp=1700000000, type="t",
        user_id="guest", app_id="a", cluster_id="cluster")
    with _Case() as case:
        for properties in (sent, pika.BasicProperties(), pika.BasicProperties(headers={}),
                           pika.BasicProperties(delivery_mode=1, content_type="")):
            case.send(b"body", properties)
        channel = case.channel()
        got, _ = case.consume(channel)
        case.exactly(got, 4, channel)
        got.sort(key=lambda one: one.tag)
        for name in vars(sent):
            mine = getattr(sent, name)
            theirs = getattr(got[0].properties, name)
            equal(repr(_plain(theirs)), repr(_plain(mine)), name)
        equal([name for name, value in vars(got[1].properties).items() if value is not None], [], "none set")
        equal(got[2].properties.headers, {}, "an empty table")
        equal((got[3].properties.delivery_mode, got[3].properties.content_type), (1, ""), "transient")


def a_worker_sees_where_a_message_was_published_to():
    with _Case() as case:
        case.producer.exchange_declare("clients.topic", "topic")
        case.producer.queue_bind(case.intake, "clients.topic", "jobs.#")
        case.send(b"0", exchange="clients.topic", key="jobs.fast.some")
        case.send(b"1")
        channel = case.channel()
        got, _ = case.consume(channel)
        case.exactly(got, 2, channel)
        case.producer.exchange_delete("clients.topic")
        equal([(one.method.exchange, one.method.routing_key) for one in sorted(got, key=lambda one: one.body)],
              [("clients.topic", "jobs.fast.some"), ("", case.intake)], "exchange and routing key")


def bodies_of_any_size_arrive():
    with _Case() as case:
        sizes = [0, 1, 4087, 4088, 4089, 131064, 131065, 400000]
        for size in sizes:
            case.send(bytes(n % 251 for n in range(size)), pika.BasicProperties(delivery_mode=2))
        for frame_max in (131072, 4096):
            channel = case.connect(frame_max=frame_max).channel()
            got, _ = case.consume(channel)
            case.exactly(got, len(sizes), channel)
            for one in got:
                equal(one.body, bytes(n % 251 for n in range(len(one.body))), "body")
            equal(sorted(len(one.body) for one in got), sizes, "sizes")
            channel.connection.close()
        case.expect_left(len(sizes))


def large_bodies_go_both_ways_at_once():
    with _Case() as case:
        channel = case.channel(prefetch=2)
        channel.confirm_delivery()
        got, _ = case.consume(channel)
        for number in range(10):
            channel.basic_publish("", case.intake, b"%d " % number + bytes(400000), mandatory=True)
            channel.basic_ack(case.gather(got, number + 1)[-1].tag)
        equal([int(one.body.split()[0]) for one in got], list(range(10)), "order")
        equal({len(one.body) for one in got}, {400002}, "sizes")
        case.expect_left(0)


# --- the connection -----------------------------------------------------------------------------

def a_wrong_password_and_host_are_refused():
    with _Case() as case:
        for uri in (case.workers.replace("guest:guest", "guest:wrong"), case.workers.replace("%2f", "missing")):
            try:
                harness.connect(uri)
            except (pika.exceptions.ProbableAuthenticationError, pika.exceptions.ConnectionClosedByBroker,
                    pika.exceptions.ProbableAccessDeniedError):
                continue
            raise AssertionError(f"{uri} was taken")
        case.channel().queue_declare(case.work, passive=True)


def another_protocol_is_answered_with_ours():
    with _Case() as case:
        parameters = pika.URLParameters(case.workers)
        with socket.create_connection((parameters.host, parameters.port), timeout=10) as raw:
            raw.sendall(b"AMQP\x00\x00\x08\x00")
            answer = b""
            while len(answer) < 8:
                piece = raw.recv(8)
                assert piece, f"closed after {answer!r}"
                answer += piece
            equal(answer, b"AMQP\x00\x00\x09\x01", "the protocol header")
            try:
                equal(raw.recv(1), b"", "then the end")
            except ConnectionResetError:
                pass
        case.channel().queue_declare(case.work, passive=True)


def acks_alone_keep_a_connection_with_heartbeats_alive():
    with _Case() as case:
        connection = case.connect(heartbeat=2)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        got, _ = case.consume(channel)
        case.publish(260)
        for number in range(260):  # 6.5 s, more than three beats without another frame
            channel.basic_ack(case.gather(got, number + 1)[-1].tag)
            connection.process_data_events(0.025)
        assert connection.is_open, "closed"
        case.expect_left(0)


def a_connection_without_work_stays():
    with _Case() as case:
        connection = case.connect(heartbeat=2)
        channel = connection.channel()
        got, _ = case.consume(channel)
        connection.process_data_events(6.5)
        case.publish(1)
        channel.basic_ack(case.gather(got, 1)[0].tag)
        case.expect_left(0)


def many_consumers_share_fairly():
    with _Case() as case:
        connections = [case.connect() for _ in range(10)]
        got = []
        for connection in connections:
            for _ in range(5):
                channel = connection.channel()
                channel.basic_qos(prefetch_count=1)
                got.append(case.consume(channel)[0])
        case.publish(100)

        def each_has_one():
            for connection in connections:
                connection.process_data_events(0.005)
            return all(len(into) == 1 for into in got)
        wait_until(each_has_one, what=lambda: f"one for each: {[len(into) for into in got]}")
        equal(len({one.body for into in got for one in into}), 50, "different messages")
        case.expect_left(100)


def a_channel_number_can_be_used_again():
    with _Case() as case:
        case.publish(10)
        connection, seen = case.connect(), []
        for _ in range(10):
            channel = connection.channel(channel_number=3)
            channel.basic_qos(prefetch_count=1)
            got, _ = case.consume(channel)
            one = case.exactly(got, 1, channel)[0]
            equal(one.tag, 1, "delivery tag")
            seen.append(int(one.body))
            channel.basic_ack(one.tag)
            channel.close()  # pika gives back what has come meanwhile, which may change the order
        equal(sorted(seen), list(range(10)), "each once")
        case.expect_left(0)


def flow_is_answered():
    with _Case() as case:
        case.publish(1)
        channel = case.channel()
        equal(channel.flow(True), True, "active")
        got, _ = case.consume(channel)
        case.exactly(got, 1, channel)


harness.main(globals())
