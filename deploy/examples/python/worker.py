#!/usr/bin/python3
"""A RabbitMQ worker that tells Harbinger how long each job took (Python, pika).

    worker.py [AMQP-URI [WORK-QUEUE]]

What Harbinger adds to an ordinary worker is report() and the clock around handle(). Any lost connection
ends the program: its supervisor (systemd, a container runtime) starts it again.
"""
import json
import signal
import sys
import time

import pika

REPORTS = "harbinger.reports"


def handle(body):
    """The work itself: yours goes here. These jobs carry the milliseconds to sleep."""
    time.sleep(json.loads(body)["ms"] / 1000)


def report(channel, headers, duration_ms, outcome):
    """Publishes what the job took. A message that did not pass Harbinger has no id and no report."""
    if "x-harbinger-id" not in headers or "x-harbinger-key" not in headers:
        return
    fields = {"id": headers["x-harbinger-id"], "key": headers["x-harbinger-key"],
              "duration_ms": round(duration_ms, 3), "outcome": outcome}
    channel.basic_publish(REPORTS, "", json.dumps(fields).encode())  # transient, no confirm


def main(uri="amqp://guest:guest@127.0.0.1:5672/%2f", queue="harbinger.work"):
    parameters = pika.URLParameters(uri)
    parameters.heartbeat = 0  # a job may take longer than a heartbeat; TCP's keepalive finds a dead peer
    parameters.tcp_options = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
    # Two connections: while RabbitMQ is short of memory or disk it does not read a connection that has
    # published, and the acks must get through. Reports are then skipped: they only teach.
    work, reports = pika.BlockingConnection(parameters), pika.BlockingConnection(parameters)
    flags = {"stop": False, "blocked": False}
    signal.signal(signal.SIGTERM, lambda *_: flags.update(stop=True))  # the current job is finished
    reports.add_on_connection_blocked_callback(lambda *_: flags.update(blocked=True))
    reports.add_on_connection_unblocked_callback(lambda *_: flags.update(blocked=False))
    report_channel, channel = reports.channel(), work.channel()
    channel.basic_qos(prefetch_count=1)  # what a worker holds can no longer be overtaken
    for method, properties, body in channel.consume(queue, inactivity_timeout=0.5):
        reports.process_data_events(0)
        if method is not None:
            started, outcome = time.monotonic(), "ok"
            try:
                handle(body)
            except Exception as error:  # pylint: disable=broad-except
                print("job failed:", repr(error), file=sys.stderr)
                outcome = "error"
            if not flags["blocked"]:  # the report goes first: once acked, the job is forgotten
                report(report_channel, properties.headers or {}, 1000 * (time.monotonic() - started), outcome)
            if outcome == "ok":
                channel.basic_ack(method.delivery_tag)
            else:
                channel.basic_reject(method.delivery_tag, requeue=False)  # to the dead-letter exchange
        if flags["stop"]:
            break
    work.close()  # a job that came meanwhile goes back to the queue
    reports.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
