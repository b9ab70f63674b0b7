"""amqp_worker.py URI QUEUE PREFETCH HANDLE_MS: a plain AMQP worker on pika, which connects again when it must.

Prints what tests/lib/worker.c prints: for each message that it has begun with, its number and the SHA-256 of its
body, before it acks; "ready" whenever it consumes. SIGTERM ends it after the message at hand.
"""
import hashlib
import signal
import sys
import time

import pika
import pika.exceptions

URI, QUEUE, PREFETCH, HANDLE_MS = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
stopping = False


def stop(*_):
    global stopping  # pylint: disable=global-statement
    stopping = True


def handle(channel, method, _properties, body):
    if stopping:
        return
    number = int(body.split(b" ", 1)[0])
    sys.stdout.write(f"{number} {hashlib.sha256(body).hexdigest()}\n")
    sys.stdout.flush()
    time.sleep(HANDLE_MS / 1000)
    channel.basic_ack(method.delivery_tag)


def work():
    connection = pika.BlockingConnection(pika.URLParameters(URI))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=PREFETCH)
    channel.basic_consume(QUEUE, handle)
    print("ready", flush=True)
    while not stopping and channel.is_open:
        connection.process_data_events(0.1)
    connection.close()


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, signal.SIG_IGN)
while not stopping:
    try:
        work()
    except (pika.exceptions.AMQPError, OSError):
        time.sleep(0.1)
