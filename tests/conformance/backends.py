"""Both backends behind one face: a daemon beside RabbitMQ, and workers that take jobs and settle them."""
import json
import pathlib
import queue
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402
import pika  # noqa: E402
import rpc  # noqa: E402
import workers as fleet  # noqa: E402
from oracle import INTAKE, REPORTS, WORK  # noqa: E402


class Intake:
    """The producers' side, the same for all."""

    def __init__(self):
        self.connection = harness.connect()
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()  # what was published is in the queue

    def publish(self, body=b"", label=None, **properties):
        headers = properties.pop("headers", {})
        if label is not None:
            headers["job_type"] = label
        self.channel.basic_publish("", INTAKE, body, pika.BasicProperties(headers=headers, delivery_mode=2, **properties))

    def report(self, label, ms, count=40):
        for _ in range(count):
            body = {"key": f"-/{label}", "duration_ms": ms, "outcome": "ok"}
            self.channel.basic_publish(REPORTS, "", json.dumps(body).encode())

    def ready(self, name):
        return harness.ready_count(self.channel, name)

    def close(self):
        self.connection.close()


class Backend:
    """`settings` on top of what every run of this backend has."""
    base = {}

    def __init__(self, **settings):
        harness.delete_topology()
        self.settings = {**self.base, **{name.replace("__", "."): value for name, value in settings.items()}}

    def __enter__(self):
        self.daemon = harness.Daemon(self.settings)
        self.intake = Intake()
        self.open = []
        return self

    def __exit__(self, *details):
        for worker in self.open:
            worker.vanish()
        self.intake.close()
        self.daemon.__exit__(*details)

    def worker(self):
        worker = self.new_worker()
        self.open.append(worker)
        return worker

    def settle_down(self, count):
        """Until all of `count` messages have left the intake's ready ones, and are where they can be taken."""
        harness.wait_until(lambda: self.waiting() >= count, what=lambda: f"{count} waiting, not {self.waiting()}")

    def learned(self, count):
        """Until so many durations were learned."""
        harness.wait_until(lambda: self.daemon.status()["predictor"]["learned"] >= count, 30,
                           lambda: f"{count} learned: {self.daemon.status()['predictor']}")


class RabbitJob:
    def __init__(self, worker, method, properties, body):
        self.worker, self.tag, self.properties, self.body = worker, method.delivery_tag, properties, body
        self.headers = {k: v for k, v in (properties.headers or {}).items() if not k.startswith("x-harbinger-")}

    def finish(self, ms=1.0):
        self.worker.channel.basic_ack(self.tag)

    def fail(self):
        self.worker.channel.basic_nack(self.tag, requeue=True)

    def settle_again(self):
        """True when the repetition of its settlement does no harm."""
        self.finish()
        try:
            self.worker.channel.queue_declare(WORK, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            self.worker.channel = self.worker.connection.channel()
            return False
        return True


class RabbitWorker:
    def __init__(self):
        self.connection = harness.connect()
        self.channel = self.connection.channel()

    def take(self, limit=10.0):
        """The next job, or None when there is none within `limit` seconds."""
        got = []

        def ask():
            got[:] = self.channel.basic_get(WORK)
            return got[0] is not None
        try:
            harness.wait_until(ask, limit)
        except AssertionError:
            return None
        return RabbitJob(self, *got)

    def vanish(self):
        if self.connection.is_open:
            self.connection.close()


class RabbitMQ(Backend):
    name = "rabbitmq"
    base = {"backend": "rabbitmq"}

    def new_worker(self):
        return RabbitWorker()

    def waiting(self):
        return self.intake.ready(WORK)


class StreamJob:
    def __init__(self, worker, message):
        self.worker, self.message, self.body = worker, message, message.payload
        self.headers = {k: v for k, v in message.headers.items() if not k.startswith(("amqp.", "__"))}

    def _settle(self, **fields):
        self.worker.send(settlements=[rpc.pb.Settlement(
            message_id=self.message.message_id, attempt_token=self.message.attempt_token, **fields)])

    def finish(self, ms=1.0):
        self._settle(duration_ms=ms)

    def fail(self):
        self._settle(failed=True, reason="the handler failed")

    def settle_again(self):
        self.finish()
        self.worker.sync()
        return not self.worker.refused


class StreamWorker:
    """A Work stream with one credit at a time."""

    def __init__(self, address):
        self.client = rpc.Client(address).register()
        self.up, self.down = queue.Queue(), queue.Queue()
        self.refused, self.asked = [], False
        self.call = self.client.stub.Work(iter(self.up.get, None))
        self.send(consumer_id=self.client.consumer)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for response in self.call:
                self.refused += response.results
                for message in response.deliveries:
                    self.down.put(message)
        except rpc.grpc.RpcError:
            pass

    def send(self, **fields):
        self.up.put(rpc.pb.WorkRequest(**fields))

    def sync(self):
        """Until all that was sent has been answered: an unknown settlement is, and answers are in order."""
        before = len(self.refused)
        self.send(settlements=[rpc.pb.Settlement(message_id="sync", attempt_token="sync")])
        harness.wait_until(lambda: any(r.message_id == "sync" for r in self.refused[before:]))
        self.refused = [r for r in self.refused if r.message_id != "sync"]

    def take(self, limit=10.0):
        if not self.asked:
            self.send(credit=1)
        self.asked = True
        try:
            message = self.down.get(timeout=limit)
        except queue.Empty:
            return None
        self.asked = False
        return StreamJob(self, message)

    def vanish(self):
        self.call.cancel()
        self.up.put(None)
        self.client.close()


class Harbinger(Backend):
    name = "harbinger"

    def __init__(self, **settings):
        rpc.need()
        # Jobs are looked at before the first worker asks.
        self.base = {"backend": "harbinger", "rpc.listen": fleet.free_address(), "intake.idle_after": "0"}
        super().__init__(**settings)

    def new_worker(self):
        return StreamWorker(self.settings["rpc.listen"])

    def waiting(self):
        return self.daemon.status()["broker"]["waiting"]


BACKENDS = [RabbitMQ, Harbinger]
