"use strict";
/* The two streams: many submissions over one, and the work of a consumer over the other. */
const { once } = require("node:events");
const net = require("node:net");
const { assert, grpc, Client, both, isRefused, CALL_MS } = require("./harness");

const LARGE = 300000;

/* A stream of both directions: `send`, `end`, `next` (null at an end in order), `cancel`. */
class Stream {
    constructor(client, method, ...requests) {
        this.call = client.stub[method]({ deadline: Date.now() + CALL_MS });
        this.call.on("error", () => {}); // `next` throws it
        this.messages = this.call[Symbol.asyncIterator]();
        for (const request of requests)
            this.send(request);
    }

    send(request) {
        return this.call.write(request);
    }

    end() {
        this.call.end();
    }

    cancel() {
        this.call.cancel();
    }

    async next() {
        const { value, done } = await this.messages.next();
        return done ? null : value;
    }

    /* The next `count` items of a repeated field, over as many messages as it takes. */
    async take(field, count) {
        const items = [];
        while (items.length < count) {
            const message = await this.next();
            assert.notEqual(message, null, `the stream ended after ${items.length} of ${count}`);
            items.push(...message[field]);
        }
        assert.equal(items.length, count);
        return items;
    }
}

function work(client, credit, more = {}) {
    return new Stream(client, "Work", { consumer_id: client.consumer, credit, ...more });
}

function settlement({ message_id, attempt_token }, more = {}) {
    return { message_id, attempt_token, duration_ms: 1.5, ...more };
}

const NOTHING = { message_id: "x", attempt_token: "y" }; // its result says that the stream is open

async function submissions_over_a_stream_are_answered_in_their_order(own) {
    const [, client] = await both(own, { max_messages: 1000 });
    const up = new Stream(client, "SubmitStream");
    const send = (payload, producer_id = client.producer) =>
        up.send({ producer_id, payload: Buffer.from(payload), headers: { "größe": "Ω" } });
    for (let i = 0; i < 1001; i++)
        if (i === 500)
            send("forged", "nobody");
        else
            send(String(i));
    send("too much");
    up.end();
    const results = await up.take("results", 1002);
    assert.equal(await up.next(), null);
    assert.equal(results[500].status, grpc.status.PERMISSION_DENIED);
    assert.equal(results[1001].status, grpc.status.RESOURCE_EXHAUSTED);
    assert.equal(new Set(results.filter((r) => r.status === 0).map((r) => r.message_id)).size, 1000);
    const message = await client.pull();
    assert.equal(message.message_id, results[0].message_id);
    assert.equal(message.headers["größe"], "Ω");
}

async function large_messages_pass_through_both_streams(own) {
    const [, client] = await both(own);
    const up = new Stream(client, "SubmitStream");
    const down = work(client, 2);
    const payloads = Array.from({ length: 30 }, (_, i) => Buffer.alloc(LARGE + i, `${i} of many `));
    for (const payload of payloads)
        up.send({ producer_id: client.producer, payload });
    const results = await up.take("results", payloads.length);
    for (const [i, payload] of payloads.entries()) {
        const [message] = await down.take("deliveries", 1);
        assert.equal(message.message_id, results[i].message_id);
        assert(message.payload.equals(payload), `payload ${i}`);
        down.send({ credit: 1, settlements: [settlement(message)] });
    }
    up.end();
    down.end();
    assert.deepEqual([await up.next(), await down.next()], [null, null]);
    const { acked, in_flight } = await client.stats();
    assert.deepEqual([acked, in_flight], [30, 0]);
}

/* What one stream does not read fills its own window, not the connection's. */
async function a_stream_that_is_not_read_holds_up_nobody_else(own) {
    const [, client] = await both(own);
    const slow = work(client, 3, { settlements: [NOTHING] });
    assert.equal((await slow.next()).results.length, 1);
    for (let i = 0; i < 3; i++)
        await client.submit(Buffer.alloc(LARGE));
    for (let i = 0; i < 20; i++) {
        await client.submit(`${i}`);
        const message = await client.pull();
        assert.equal(message.payload.toString(), `${i}`);
        await client.ack(message);
    }
    assert.equal((await slow.take("deliveries", 3)).every((m) => m.payload.length === LARGE), true);
    slow.cancel();
}

async function deliveries_follow_the_credit(own) {
    const [, client] = await both(own);
    for (let i = 0; i < 10; i++)
        await client.submit(String(i));
    const stream = work(client, 3);
    const first = await stream.take("deliveries", 3);
    assert.deepEqual(first.map((m) => m.payload.toString()), ["0", "1", "2"]);
    assert.equal((await client.stats()).in_flight, 3, "no more than the credit");
    stream.send({ credit: 1, settlements: [settlement(first[1])] });
    assert.equal((await stream.take("deliveries", 1))[0].payload.toString(), "3");
    stream.send({ credit: 1, settlements: [settlement(first[2], { failed: true, reason: "für später" })] });
    const again = (await stream.take("deliveries", 1))[0];
    assert.notEqual(again.attempt_token, first[2].attempt_token);
    stream.send({ settlements: [settlement(first[2]), NOTHING] });
    const results = await stream.take("results", 2);
    assert.deepEqual(results.map((r) => r.status), [grpc.status.FAILED_PRECONDITION, grpc.status.NOT_FOUND]);
    stream.end(); // done in order: what it has not settled goes back as it was
    assert.equal(await stream.next(), null);
    const { in_flight, acked, nacked } = await client.stats();
    assert.deepEqual([in_flight, acked, nacked], [0, 1, 1]);
}

/* grpc-js ends its side before it resets the stream, so this may also count as an end in order. */
async function a_cancelled_stream_gives_up_what_it_had(own) {
    const [server, client] = await both(own);
    const other = await own(new Client(server.address)).register();
    const id = await client.submit("x");
    const stream = work(other, 1);
    await stream.take("deliveries", 1);
    stream.cancel();
    await isRefused(stream.next(), "CANCELLED");
    assert.equal((await client.pull()).message_id, id);
    assert.equal((await client.stats()).leases_expired, 0);
}

/* A way to the server that can be cut. */
async function between(server) {
    const sockets = [];
    const listener = net.createServer((near) => {
        const far = net.connect(server.port, "127.0.0.1");
        for (const [from, to] of [[near, far], [far, near]]) {
            from.on("error", () => {}).on("close", () => to.destroy()).pipe(to);
            sockets.push(from);
        }
    });
    await once(listener.listen(0, "127.0.0.1"), "listening");
    const cut = () => sockets.forEach((socket) => socket.destroy());
    return { address: `127.0.0.1:${listener.address().port}`, cut, close: () => listener.close(cut()) };
}

async function a_stream_whose_connection_is_lost_fails_what_it_had(own) {
    const [server, client] = await both(own);
    const way = own(await between(server));
    const other = await own(new Client(way.address)).register();
    const id = await client.submit("x");
    const stream = work(other, 5);
    const [first] = await stream.take("deliveries", 1);
    way.cut();
    await isRefused(stream.next(), "UNAVAILABLE");
    const again = await client.pull();
    assert.equal(again.message_id, id);
    assert.notEqual(again.attempt_token, first.attempt_token);
    assert.equal((await client.stats()).nacked, 1);
}

async function too_much_credit_is_refused(own) {
    const [, client] = await both(own);
    for (const credits of [[1001], [600, 600], [2 ** 32 - 1, 1]]) {
        const stream = work(client, credits[0]);
        for (const credit of credits.slice(1))
            stream.send({ credit });
        await isRefused(stream.next(), "INVALID_ARGUMENT");
    }
    await isRefused(new Stream(client, "Work", { consumer_id: "nobody", credit: 1 }).next(), "PERMISSION_DENIED");
}

async function a_deadline_ends_a_stream(own) {
    const [, client] = await both(own);
    const call = client.stub.Work({ deadline: Date.now() + 200 });
    call.write({ consumer_id: client.consumer, credit: 1 });
    call.on("error", () => {});
    await isRefused(call[Symbol.asyncIterator]().next(), "DEADLINE_EXCEEDED");
    await client.stats();
    await client.submit("x");
    assert.notEqual(await client.pull(), null);
}

async function streams_share_in_turn(own) {
    const [, client] = await both(own);
    const streams = [0, 1, 2, 3].map(() => work(client, 100, { settlements: [NOTHING] }));
    for (const stream of streams)
        assert.equal((await stream.next()).results.length, 1);
    for (let i = 0; i < 40; i++)
        await client.submit("x");
    for (const stream of streams)
        await stream.take("deliveries", 10);
    for (const stream of streams)
        stream.end();
}

module.exports = {
    submissions_over_a_stream_are_answered_in_their_order,
    large_messages_pass_through_both_streams,
    a_stream_that_is_not_read_holds_up_nobody_else,
    deliveries_follow_the_credit,
    a_cancelled_stream_gives_up_what_it_had,
    a_stream_whose_connection_is_lost_fails_what_it_had,
    too_much_credit_is_refused,
    a_deadline_ends_a_stream,
    streams_share_in_turn,
};
