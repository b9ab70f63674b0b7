"""Workers of RabbitMQ behind the AMQP proxy: what each kind of frame leads to.

The broker behind the proxy is proxy_server's own; RabbitMQ is a real one.
"""
import json
import os
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import pika  # noqa: E402
import pika.exceptions  # noqa: E402

import harness  # noqa: E402
from harness import equal, wait_until  # noqa: E402
from proxied import Proxied, number  # noqa: E402

QUEUE = "proxy.work"


class Worker:
    """A pika connection that gathers what it is given: (number, delivery tag, redelivered)."""

    def __init__(self, proxied, prefetch=1, queue=QUEUE, auto_ack=False, **options):
        self.connection = proxied.connect(**options)
        self.channel = self.connection.channel()
        self.channel.queue_declare(QUEUE, durable=True)
        self.got, self.bodies = [], []
        if prefetch is not None:
            self.channel.basic_qos(prefetch_count=prefetch)
        self.tag = self.channel.basic_consume(queue, self.on_message, auto_ack=auto_ack)

    def on_message(self, _channel, method, _properties, body):
        self.got.append((number(body), method.delivery_tag, method.redelivered))
        self.bodies.append(body)

    def turn(self):
        self.connection.process_data_events(0.01)

    def wait_for(self, count):
        wait_until(lambda: (self.turn(), len(self.got) >= count)[1], what=lambda: f"{count} messages; got {self.got}")
        return self.got

    def numbers(self):
        return [n for n, _, _ in self.got]


def _settled(proxied, **counts):
    wait_until(lambda: all(proxied.stats()[name] == count for name, count in counts.items()),
               what=lambda: f"{counts}; is {proxied.stats()}")


def _stays(worker, count):
    """Three round trips to RabbitMQ and back: what was on its way has come."""
    for _ in range(3):
        worker.channel.queue_declare(QUEUE, passive=True)
    worker.turn()
    equal(len(worker.got), count, "messages")


def _break(connection):
    """Ends a pika connection without a word."""
    connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)  # pylint: disable=protected-access


# --- deliveries and windows ---------------------------------------------------------------------

def a_worker_gets_messages_in_order_and_its_acks_settle_them():
    with Proxied(work=QUEUE) as p:
        p.put(5)
        w = Worker(p)
        for i in range(1, 6):
            equal(w.wait_for(i)[-1], (i, i, False))
            _stays(w, i)
            w.channel.basic_ack(i)
        _settled(p, acked=5, in_flight=0, waiting=0)
        w.connection.close()
        _settled(p, connections=0, consumers=0)


def messages_that_come_later_go_to_who_waits():
    with Proxied(work=QUEUE) as p:
        a, b = Worker(p), Worker(p)
        p.put(1)
        a.wait_for(1)
        p.put(1)
        b.wait_for(1)
        equal(a.numbers() + b.numbers(), [1, 2])


def prefetch_of_each_consumer_is_its_own():
    with Proxied(work=QUEUE) as p:
        p.put(20)
        w = Worker(p, prefetch=3)
        w.wait_for(3)
        _stays(w, 3)
        second = []
        w.channel.basic_qos(prefetch_count=2)
        w.channel.basic_consume(QUEUE, lambda *a: second.append(number(a[3])))
        wait_until(lambda: (w.turn(), len(second) == 2)[1])
        _stays(w, 3)
        equal(len(second), 2)
        w.channel.basic_ack(2)
        w.wait_for(4)


def a_global_prefetch_is_shared_by_the_channel():
    with Proxied(work=QUEUE) as p:
        p.put(20)
        c = p.connect()
        ch = c.channel()
        ch.queue_declare(QUEUE, durable=True)
        ch.basic_qos(prefetch_count=3, global_qos=True)
        got = []
        for _ in range(2):
            ch.basic_consume(QUEUE, lambda *a: got.append(a[1].delivery_tag))
        wait_until(lambda: (c.process_data_events(0.01), len(got) == 3)[1])
        for _ in range(3):
            ch.queue_declare(QUEUE, passive=True)
        equal(len(got), 3)
        ch.basic_qos(prefetch_count=5, global_qos=True)
        wait_until(lambda: (c.process_data_events(0.01), len(got) == 5)[1])


def the_clamp_bounds_a_prefetch_and_rises_with_it():
    with Proxied(work=QUEUE, window=2) as p:
        p.put(20)
        c = p.connect()
        ch = c.channel()
        ch.queue_declare(QUEUE, durable=True)
        ch.basic_qos(prefetch_count=8, global_qos=True)
        got = []
        ch.basic_consume(QUEUE, lambda *a: got.append(a[1].delivery_tag))

        def settles_at(count):
            wait_until(lambda: (c.process_data_events(0.01), len(got) >= count)[1])
            for _ in range(3):
                ch.queue_declare(QUEUE, passive=True)
            c.process_data_events(0)
            equal(len(got), count)
        settles_at(2)
        for prefetch, count in ((9, 3), (10, 4), (9, 4), (10, 4), (11, 5)):
            ch.basic_qos(prefetch_count=prefetch, global_qos=True)
            settles_at(count)
        equal(p.stats()["clients"][0]["window"], 5)


def without_a_limit_the_proxy_has_one():
    with Proxied(work=QUEUE, unlimited=7) as p:
        p.put(20)
        w = Worker(p, prefetch=0)
        w.wait_for(7)
        _stays(w, 7)


def messages_without_acks_are_settled_when_they_are_sent():
    with Proxied(work=QUEUE) as p:
        p.put(20)
        w = Worker(p, prefetch=1, auto_ack=True)
        equal([n for n, _, _ in w.wait_for(20)], list(range(1, 21)))
        _settled(p, acked=20, no_acks=20, in_flight=0, broker_in_flight=0)


def large_bodies_are_cut_to_the_frame_size():
    with Proxied(work=QUEUE) as p:
        p.put(1, 400_000)
        p.put(1, 3_000_000)
        for frame_max in (4096, 131072):
            w = Worker(p, prefetch=2, frame_max=frame_max)
            w.wait_for(2)
            equal([len(b) for b in w.bodies], [400_000, 3_000_000])
            equal(set(w.bodies[1][8:]), {ord("x")})
            w.connection.close()
            _settled(p, in_flight=0)


# --- settlement ---------------------------------------------------------------------------------

def nack_and_reject_with_requeue_fail_an_attempt():
    with Proxied(work=QUEUE) as p:
        p.put(1)
        w = Worker(p)
        w.wait_for(1)
        w.channel.basic_nack(1, requeue=True)
        equal(w.wait_for(2)[-1], (1, 2, True))
        w.channel.basic_reject(2, requeue=True)
        equal(w.wait_for(3)[-1], (1, 3, True))
        w.channel.basic_nack(3, requeue=True)  # the third and last
        _settled(p, failed=3, dead=1, in_flight=0)


def nack_and_reject_without_requeue_discard():
    with Proxied(work=QUEUE) as p:
        p.put(2)
        w = Worker(p)
        w.wait_for(1)
        w.channel.basic_nack(1, requeue=False)
        w.wait_for(2)
        w.channel.basic_reject(2, requeue=False)
        _settled(p, discarded=2, failed=0, in_flight=0, waiting=0)


def multiple_settles_all_up_to_the_tag():
    with Proxied(work=QUEUE) as p:
        p.put(10)
        w = Worker(p, prefetch=10)
        w.wait_for(10)
        w.channel.basic_ack(4, multiple=True)
        _settled(p, acked=4, in_flight=6)
        w.channel.basic_nack(6, multiple=True, requeue=False)
        _settled(p, discarded=2, in_flight=4)
        w.channel.basic_ack(0, multiple=True)
        _settled(p, acked=8, in_flight=0)


def an_unknown_tag_is_refused_by_rabbitmq_in_its_own_words():
    with Proxied(work=QUEUE) as p:
        p.put(3)
        w = Worker(p, prefetch=2)
        w.wait_for(2)
        w.channel.basic_ack(1)
        w.wait_for(3)
        try:
            w.channel.basic_ack(1)
            wait_until(lambda: (w.turn(), w.channel.is_closed)[1])
        except pika.exceptions.ChannelClosedByBroker as error:  # pika's moment, not ours
            equal(error.reply_code, 406)
        assert w.channel.is_closed
        _settled(p, unknown_tags=1, in_flight=0, acked=1, failed=2)


def recover_puts_back_without_counting_an_attempt():
    with Proxied(work=QUEUE) as p:
        p.put(2)
        w = Worker(p, prefetch=2)
        w.wait_for(2)
        w.channel.basic_recover(requeue=True)
        w.wait_for(4)
        equal(w.numbers(), [1, 2, 1, 2])
        equal([tag for _, tag, _ in w.got], [1, 2, 3, 4])
        w.channel.basic_ack(4, multiple=True)
        _settled(p, put_back=2, failed=0, acked=2)


# --- RabbitMQ's own messages between ours -------------------------------------------------------

def messages_in_the_work_queue_come_too_under_one_numbering():
    with Proxied(work=QUEUE) as p:
        p.put(2)
        w = Worker(p, prefetch=10)
        w.wait_for(2)
        w.channel.basic_publish("", QUEUE, b"100:left over")
        w.wait_for(3)
        p.put(1)
        equal([(n, t) for n, t, _ in w.wait_for(4)], [(1, 1), (2, 2), (100, 3), (3, 4)])
        w.channel.basic_ack(4, multiple=True)
        _settled(p, acked=3, in_flight=0)
        w.connection.close()
        check = Worker(p)
        _stays(check, 0)  # RabbitMQ has its own ack


def a_tag_of_rabbitmq_is_given_back_to_it():
    with Proxied(work=QUEUE) as p:
        p.put(1)
        w = Worker(p, prefetch=10)
        w.wait_for(1)
        w.channel.basic_publish("", QUEUE, b"100:left over")
        w.wait_for(2)
        w.channel.basic_nack(2, requeue=True)
        equal(w.wait_for(3)[-1], (100, 3, True))
        w.channel.basic_ack(3)
        w.channel.basic_ack(1)
        _settled(p, in_flight=0, acked=1, unknown_tags=0)
        _stays(w, 3)


def another_queue_on_the_same_channel_is_untouched():
    with Proxied(work=QUEUE) as p:
        w = Worker(p, prefetch=10)
        other = w.channel.queue_declare("", exclusive=True).method.queue
        events = []
        w.channel.basic_consume(other, lambda *a: events.append((a[1].delivery_tag, a[3])), auto_ack=True)
        for i in range(50):
            w.channel.basic_publish("", other, b"e" * 5000 * (i % 3))
            if i % 5 == 0:
                p.put(1)
        w.wait_for(10)
        wait_until(lambda: (w.turn(), len(events) == 50)[1])
        equal([b for _, b in events], [b"e" * 5000 * (i % 3) for i in range(50)])
        equal(sorted([t for t, _ in events] + [t for _, t, _ in w.got]), list(range(1, 61)))
        w.channel.basic_ack(0, multiple=True)
        _settled(p, acked=10, in_flight=0)


# --- get ----------------------------------------------------------------------------------------

def get_takes_a_message_or_says_there_is_none():
    with Proxied(work=QUEUE) as p:
        p.put(3)
        c = p.connect()
        ch = c.channel()
        ch.queue_declare(QUEUE, durable=True)
        method, _, body = ch.basic_get(QUEUE)
        equal((number(body), method.delivery_tag, method.message_count), (1, 1, 2))
        method, _, body = ch.basic_get(QUEUE, auto_ack=True)
        equal((number(body), method.delivery_tag), (2, 2))
        ch.basic_nack(1, requeue=True)
        _settled(p, failed=1, acked=1, in_flight=0)
        equal(sorted(number(ch.basic_get(QUEUE)[2]) for _ in range(2)), [1, 3])
        equal(ch.basic_get(QUEUE), (None, None, None))
        ch.basic_ack(0, multiple=True)
        _settled(p, acked=3, in_flight=0)


def the_length_of_the_queue_counts_what_waits_here():
    with Proxied(work=QUEUE) as p:
        p.put(12)
        ch = p.connect().channel()
        equal(ch.queue_declare(QUEUE, durable=True).method.message_count, 12)
        other = ch.queue_declare("", exclusive=True)
        equal(other.method.message_count, 0)


# --- consumers come and go ----------------------------------------------------------------------

def a_cancelled_consumer_gets_no_more_and_may_still_ack():
    with Proxied(work=QUEUE) as p:
        p.put(5)
        w = Worker(p, prefetch=2)
        w.wait_for(2)
        equal(len(w.channel.basic_cancel(w.tag)), 0)
        w.channel.basic_ack(1)
        w.channel.basic_ack(2)
        _stays(w, 2)
        _settled(p, acked=2, consumers=0, waiting=3)
        w.channel.basic_consume(QUEUE, w.on_message, consumer_tag=w.tag)
        w.wait_for(4)


def when_the_queue_goes_rabbitmq_cancels_the_consumer():
    with Proxied(work=QUEUE) as p:
        w = Worker(p)
        cancelled = []
        w.channel.add_on_cancel_callback(cancelled.append)
        w2 = p.connect()
        w2.channel().queue_delete(QUEUE)
        wait_until(lambda: (w.turn(), cancelled)[1])
        _settled(p, consumers=0)
        p.put(1)
        w.channel.queue_declare(QUEUE, durable=True)
        _stays(w, 0)


def closing_the_channel_puts_back_in_order():
    with Proxied(work=QUEUE) as p:
        p.put(6)
        w = Worker(p, prefetch=4)
        w.wait_for(4)
        w.channel.basic_ack(2)
        w.wait_for(5)  # pika would nack what it has not shown yet
        w.channel.close()
        _settled(p, put_back=4, acked=1, failed=0, in_flight=0)
        w.channel = w.connection.channel()
        w.got.clear()
        w.channel.basic_consume(QUEUE, w.on_message)
        equal([(n, t) for n, t, _ in w.wait_for(5)], [(1, 1), (3, 2), (4, 3), (5, 4), (6, 5)])


def closing_the_connection_puts_back_and_breaking_it_fails():
    with Proxied(work=QUEUE) as p:
        p.put(3)
        w = Worker(p, prefetch=2)
        w.wait_for(2)
        w.connection.close()
        _settled(p, put_back=2, failed=0, in_flight=0, connections=0)
        w = Worker(p, prefetch=2)
        w.wait_for(2)
        _break(w.connection)
        _settled(p, failed=2, in_flight=0, connections=0)
        w = Worker(p, prefetch=3)
        w.wait_for(3)
        equal(w.numbers(), [3, 1, 2])


def a_channel_closed_by_rabbitmq_fails_what_it_had():
    with Proxied(work=QUEUE) as p:
        p.put(3)
        w = Worker(p, prefetch=2)
        w.wait_for(2)
        try:
            w.channel.queue_declare("proxy.none", passive=True)
            raise AssertionError("no error")
        except pika.exceptions.ChannelClosedByBroker as error:
            equal(error.reply_code, 404)
        _settled(p, failed=2, in_flight=0, waiting=3)
        other = Worker(p)  # the connection and the next channel go on
        other.wait_for(1)
        w.channel = w.connection.channel()
        w.channel.queue_declare(QUEUE, durable=True)


# --- the queue that workers name ----------------------------------------------------------------

def the_intake_may_be_the_workers_own_queue():
    with Proxied(work=QUEUE, intake="proxy.intake") as p:
        p.put(3)
        c = p.connect()
        ch = c.channel()
        ch.queue_declare(QUEUE, durable=True)
        ch.queue_declare("proxy.intake", durable=True)
        ch.basic_publish("", "proxy.intake", b"99:not for workers")
        got = []
        ch.basic_qos(prefetch_count=1)
        tag = ch.basic_consume("proxy.intake", lambda *a: got.append(number(a[3])))
        wait_until(lambda: (c.process_data_events(0.01), got)[1])
        ch.basic_cancel(tag)
        equal(number(ch.basic_get("proxy.intake")[2]), 2)
        ch.basic_qos(prefetch_count=2)
        ch.basic_consume("", lambda *a: got.append(number(a[3])))  # the last declared
        wait_until(lambda: (c.process_data_events(0.01), len(got) == 2)[1])
        equal(got, [1, 3])
        equal(ch.queue_declare("proxy.intake", passive=True).method.consumer_count, 0)
        equal(ch.queue_declare(QUEUE, passive=True).method.consumer_count, 1)
        ch.queue_delete("proxy.intake")


def another_virtual_host_is_not_served():
    with Proxied(work=QUEUE, vhost="elsewhere") as p:
        p.put(3)
        w = Worker(p)
        _stays(w, 0)
        equal(p.stats()["consumers"], 0)


# --- publishing ---------------------------------------------------------------------------------

def an_ack_waits_for_what_its_channel_published():
    with Proxied(work=QUEUE) as p:
        p.put(30)
        w = Worker(p, prefetch=2)
        results = w.channel.queue_declare("", exclusive=True).method.queue
        for i in range(1, 31):
            w.wait_for(i)
            w.channel.basic_publish("", results, b"r" * (i * 1000))
            w.channel.basic_ack(w.got[i - 1][1])
        _settled(p, acked=30, barriers=30, in_flight=0)
        wait_until(lambda: w.channel.queue_declare(results, passive=True).method.message_count == 30)


def without_the_barrier_acks_do_not_wait():
    with Proxied(work=QUEUE, barrier=0) as p:
        p.put(5)
        w = Worker(p)
        for i in range(1, 6):
            w.wait_for(i)
            w.channel.basic_publish("", "amq.nowhere", b"r")
            w.channel.basic_ack(i)
        _settled(p, acked=5, barriers=0)


def confirms_and_returns_are_as_ever():
    with Proxied(work=QUEUE) as p:
        p.put(1)
        w = Worker(p)
        w.wait_for(1)
        w.channel.confirm_delivery()
        for _ in range(3):
            w.channel.basic_publish("", QUEUE, b"5:x", mandatory=True)
        try:
            w.channel.basic_publish("", "proxy.none", b"x", mandatory=True)
            raise AssertionError("not returned")
        except pika.exceptions.UnroutableError:
            pass
        w.channel.basic_ack(1)
        for i in range(2, 5):
            w.channel.basic_ack(w.wait_for(i)[-1][1])
        _settled(p, acked=1, in_flight=0)
        _stays(w, 4)


def transactions_are_refused_beside_the_work_queue_only():
    with Proxied(work=QUEUE) as p:
        p.put(1)
        ch = p.connect().channel()
        ch.tx_select()
        ch.basic_publish("", QUEUE, b"7:x")
        ch.tx_commit()
        w = Worker(p)
        w.wait_for(1)
        for act in (lambda: w.channel.tx_select(), lambda: ch.basic_consume(QUEUE, print)):
            try:
                act()
                raise AssertionError("not refused")
            except pika.exceptions.ConnectionClosedByBroker as error:
                equal(error.reply_code, 540)
        _settled(p, refused_tx=2, connections=0, in_flight=0)
        c = p.connect()
        c.channel().queue_purge(QUEUE)


# --- another client -----------------------------------------------------------------------------

def librabbitmq_works_through_it_as_it_is():
    with Proxied(work=QUEUE) as p:
        uri = harness.AMQP.replace(str(harness.amqp_port()), str(p.port))
        with harness.connect() as c:
            c.channel().queue_declare(QUEUE, durable=True)
        program = harness.BUILD / "tests/lib/load"
        for ours in (True, False):  # the last ones are RabbitMQ's own, published with confirms
            if ours:
                p.put(2000, 256)
            else:
                subprocess.run([program, "publish", uri, QUEUE, "2000"], stdout=subprocess.DEVNULL, check=True, timeout=60)
            done = subprocess.run([program, "consume", uri, QUEUE, "2000", f"prefetch={1 if ours else 100}"],
                                  stdout=subprocess.PIPE, check=True, timeout=60)
            equal(json.loads(done.stdout)["received"], 2000)
            _settled(p, waiting=0, in_flight=0, connections=0)


# --- durations ----------------------------------------------------------------------------------

def a_late_ack_under_a_window_of_one_teaches_its_duration():
    with Proxied(work=QUEUE) as p:
        p.put(3)
        w = Worker(p)
        w.wait_for(1)
        begin = time.monotonic()
        wait_until(lambda: time.monotonic() - begin > 0.05)
        w.channel.basic_ack(1)
        _settled(p, timed=1)
        (taught,) = p.stats()["taught_ms"]
        assert 50 <= taught < 5000, taught


def a_wide_window_teaches_nothing_unless_it_is_clamped():
    with Proxied(work=QUEUE, early_ms=1) as p:
        p.put(2)
        w = Worker(p, prefetch=2)
        w.wait_for(2)
        w.channel.basic_ack(2, multiple=True)
        _settled(p, acked=2, timed=0, wide_acks=2)


def an_early_ack_teaches_nothing():
    with Proxied(work=QUEUE, early_ms=60000) as p:
        p.put(1)
        w = Worker(p)
        w.wait_for(1)
        w.channel.basic_ack(1)
        _settled(p, acked=1, timed=0, early_acks=1)


harness.main(globals())
