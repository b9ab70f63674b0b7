"""The Celery application of test_celery.py, told by its environment."""
import json
import os
import time

import celery
import kombu

INTAKE, WORK = os.environ["HARBINGER_TEST_INTAKE"], os.environ["HARBINGER_TEST_WORK"]
NOTES = os.environ["HARBINGER_TEST_NOTES"]

app = celery.Celery("jobs", broker=os.environ["HARBINGER_TEST_BROKER"], backend="rpc://")
app.conf.update(
    task_queues=[kombu.Queue(WORK, kombu.Exchange(""), routing_key=WORK)], task_default_queue=INTAKE,
    result_expires=600, broker_heartbeat=20, broker_connection_max_retries=3, worker_pool_restarts=False,
    **json.loads(os.environ.get("HARBINGER_TEST_CELERY", "{}")))


def _note(*words):
    with open(NOTES, "ab", buffering=0) as notes:
        notes.write(" ".join(map(str, words)).encode() + b"\n")


@app.task(name="double")
def double(number, seconds=0.0):
    _note("begun", number)
    time.sleep(seconds)
    _note("done", number)
    return 2 * number


@app.task(name="slow")
def slow(number):
    return double(number, 0.15)


@app.task(name="flaky", bind=True, max_retries=3)
def flaky(self, number):
    _note("begun", number)
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    _note("done", number)
    return self.request.retries
