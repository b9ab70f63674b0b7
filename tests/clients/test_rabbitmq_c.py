"""rabbitmq-c, unmodified: several workers and a publisher at full speed, each message once."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import arm as arms  # noqa: E402
import harness  # noqa: E402
from flood import flood  # noqa: E402
from harness import equal, wait_until  # noqa: E402
from load import Load  # noqa: E402


def _each_once(count, publish_through=False, **options):
    with arms.Arm() as arm, harness.connect() as connection:
        publish = arm.workers if publish_through else harness.AMQP
        result = flood(publish, arm.intake, arm.workers, arm.work, count, **options)
        equal((result["messages"], result["again"]), (count, 0), "messages, and those that came again")
        channel = connection.channel()
        wait_until(lambda: arm.left(channel) == 0, what="nothing left")


def one_message_at_a_time_for_each_of_four_workers():
    _each_once(10000)


def one_message_at_a_time_for_each_of_forty_workers():
    _each_once(10000, workers=40)


def many_messages_at_a_time():
    _each_once(20000, prefetch=100, limit=2000, types=7)


def publisher_and_workers_on_the_same_port():
    _each_once(5000, publish_through=True, bytes=5000)


def a_backlog_is_drained():
    with arms.Arm() as arm, harness.connect() as connection:
        flood(harness.AMQP, arm.intake, arm.workers, arm.work, 15000, only=1)
        result = flood(harness.AMQP, arm.intake, arm.workers, arm.work, 15000, publish=0, prefetch=10)
        equal(result["again"], 0, "again")
        wait_until(lambda: arm.left(connection.channel()) == 0, what="nothing left")


def acks_of_many_at_once_and_no_limit():
    with arms.Arm() as arm, harness.connect() as connection:
        with Load("consume", arm.work, 8000, uri=arm.workers, prefetch=2000) as worker:
            Load("publish", arm.intake, 8000, keys=3).result()
            equal(worker.result()["received"], 8000, "received")
        wait_until(lambda: arm.left(connection.channel()) == 0, what="nothing left")


harness.main(globals())
