"""The oracle of the fault tests finds what it is meant to find."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import oracle  # noqa: E402

QUEUE = "oracle"


class _Run:
    """A hundred messages published, and all but what `tamper` does to them drained again."""

    def __init__(self, tamper):
        with harness.connect() as connection:
            channel = connection.channel()
            channel.queue_delete(QUEUE)
            channel.queue_declare(QUEUE, durable=True)
            self.producer = oracle.publish(100, key=QUEUE)
            tamper(channel)
            self.tally = oracle.Tally().drain(QUEUE)

    def refused(self, word, **bounds):
        try:
            oracle.Verdict([self.producer], self.tally).expect(**bounds)
        except AssertionError as error:
            assert word in str(error), error
            return
        raise AssertionError(f"not found: {word}")


def _again(channel, change=lambda p: None, body=None, n=1):
    """Takes one message and publishes it n times, changed."""
    _, properties, old = channel.basic_get(QUEUE, auto_ack=True)
    change(properties)
    for _ in range(n):
        channel.basic_publish("", QUEUE, old if body is None else body, properties)


def an_untouched_run_passes():
    run = _Run(lambda channel: None)
    oracle.Verdict([run.producer], run.tally).expect()


def a_lost_message_is_found():
    _Run(lambda channel: channel.basic_get(QUEUE, auto_ack=True)).refused("lost: 1")


def a_duplicate_is_counted():
    run = _Run(lambda channel: _again(channel, n=3))
    run.refused("duplicated: 2")
    run.refused("duplicated: 2", at_most_duplicated=5, at_least_duplicated=3)
    oracle.Verdict([run.producer], run.tally).expect(at_most_duplicated=2)


def a_message_from_nowhere_is_found():
    _Run(lambda channel: channel.basic_publish("", QUEUE, b"777 ")).refused("unexpected: [777]")


def a_changed_body_header_or_property_is_found():
    changes = [lambda p: setattr(p, "content_type", "other"), lambda p: setattr(p, "delivery_mode", 1),
               lambda p: setattr(p, "headers", {**(p.headers or {}), "extra": 1}),
               lambda p: setattr(p, "user_id", None if p.user_id else "guest")]
    for change in changes:
        _Run(lambda channel, change=change: _again(channel, change)).refused("changed: 1")
    _Run(lambda channel: _again(channel, body=b"0 other")).refused("changed: 1")


def what_the_sidecar_changes_on_purpose_is_undone():
    def sidecar(properties):
        properties.headers = {"x-harbinger-id": "t-1", **(properties.headers or {})}
        if properties.user_id:
            properties.headers["x-harbinger-user-id"], properties.user_id = properties.user_id, None
        properties.priority = 2
    run = _Run(lambda channel: _again(channel, sidecar))
    oracle.Verdict([run.producer], run.tally).expect()


harness.main(globals())
