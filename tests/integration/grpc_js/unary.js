"use strict";
/* Unary calls: submissions, pulls, settlements, and the status of what is refused. */
const { assert, grpc, Client, both, refused, isRefused } = require("./harness");

async function payload_and_headers_arrive_unchanged(own) {
    const [, client] = await both(own);
    const payload = Buffer.from(Array.from({ length: 25600 }, (_, i) => i & 255));
    const headers = { job_type: "t", "": "empty name", empty: "", "ø": "smørrebrød 🦀", "ключ\0": "値\0" };
    const id = await client.submit(payload, headers);
    const message = await client.pull();
    assert.equal(message.message_id, id);
    assert.deepEqual(message.payload, payload);
    assert.deepEqual({ ...message.headers }, { ...headers, __producer_id: client.producer });
    assert.equal(message.lease_duration_ms, 30000);
    await client.ack(message, { duration_ms: 1.5 });
    await client.submit();
    assert.equal((await client.pull()).payload.length, 0);
}

/* Larger than any window: each side must grant more while it reads. */
async function large_messages_pass_in_both_directions(own) {
    const [, client] = await both(own);
    const sizes = [100000, 300001, 65535, 65536, 900000, 700000];
    const payloads = sizes.map((n, i) => Buffer.alloc(n, `${i} of many `));
    const ids = await Promise.all(payloads.map((payload) => client.submit(payload)));
    const got = await Promise.all(ids.map(() => client.pull()));
    assert.deepEqual(got.map((m) => m.message_id).sort(), [...ids].sort());
    for (const message of got)
        assert(message.payload.equals(payloads[ids.indexOf(message.message_id)]), message.message_id);
    await Promise.all(got.map((message) => client.ack(message)));
    assert.equal((await client.stats()).acked, sizes.length);
}

async function many_calls_share_a_channel(own) {
    const [, client] = await both(own);
    const numbers = Array.from({ length: 600 }, (_, i) => String(i));
    const pulls = numbers.map(() => client.pull());
    await Promise.all(numbers.map((number) => client.submit(number)));
    const messages = await Promise.all(pulls);
    assert.deepEqual(new Set(messages.map((m) => m.payload.toString())), new Set(numbers));
    await Promise.all(messages.map((message) => client.ack(message)));
    const { waiting, in_flight, acked } = await client.stats();
    assert.deepEqual([waiting, in_flight, acked], [0, 0, 600]);
}

async function a_waiting_pull_gets_what_comes(own) {
    const [server, client] = await both(own);
    const other = await own(new Client(server.address)).register();
    const pull = client.pull();
    await client.stats(); // which was sent after the pull, so that it waits by now
    const id = await other.submit("wakes it");
    assert.equal((await pull).message_id, id);
}

async function a_pull_whose_time_is_over_is_no_error(own) {
    const [, client] = await both(own, { pull_ms: 300 });
    assert.equal(await client.pull(50), null);
    assert.equal(await client.pull(0), null, "0 is as long as the broker allows");
    assert.equal(await client.pull(Number.MAX_SAFE_INTEGER), null, "and more is cut to it");
}

async function a_deadline_ends_a_waiting_pull(own) {
    const [, client] = await both(own);
    await isRefused(client.pull(5000, { deadline: Date.now() + 100 }), "DEADLINE_EXCEEDED");
    await isRefused(client.pull(5000, { deadline: Date.now() - 1 }), "DEADLINE_EXCEEDED");
    await client.stats();
    await client.submit("later");
    assert.equal((await client.pull()).payload.toString(), "later");
}

async function a_cancelled_pull_takes_nothing_with_it(own) {
    const [server, client] = await both(own);
    const other = await own(new Client(server.address)).register();
    for (let round = 0; round < 30; round++) {
        let call;
        const pull = client.pull(5000, {}, (made) => { call = made; });
        await client.stats();
        call.cancel();
        await isRefused(pull, "CANCELLED");
        await client.stats(); // behind the cancellation on its connection
        const first = await other.submit("first");
        const second = await other.submit("second");
        const got = [await other.pull(), await other.pull()];
        assert.deepEqual(got.map((m) => m.message_id), [first, second]);
        for (const message of got)
            await other.ack(message);
    }
    assert.equal((await other.stats()).in_flight, 0);
}

/* Cancelled while most of its answer waits for the client's window: that delivery was never made. */
async function a_pull_cancelled_in_mid_answer_puts_the_message_back(own) {
    const [server, client] = await both(own);
    const other = await own(new Client(server.address)).register();
    const first = await other.submit(Buffer.alloc(4000000));
    const second = await other.submit("second");
    const pull = client.pull(5000, {}, (call) => call.on("metadata", () => call.cancel()));
    await isRefused(pull, "CANCELLED");
    await client.stats(); // behind the cancellation on its connection
    assert.equal((await other.stats()).waiting, 2);
    assert.deepEqual([(await other.pull()).message_id, (await other.pull()).message_id], [first, second]);
    const { nacked, leases_expired, retried } = await other.stats();
    assert.deepEqual([nacked, leases_expired, retried], [0, 0, 0]);
}

async function settlements_have_their_status(own) {
    const [server, client] = await both(own);
    const other = await own(new Client(server.address)).register();
    await client.submit("x");
    const message = await client.pull();
    for (const attempt_token of ["", "a_b", "ü", "x".repeat(129), "a b"])
        await isRefused(client.ack({ ...message, attempt_token }), "INVALID_ARGUMENT");
    await isRefused(client.ack({ ...message, attempt_token: "well-formed" }), "FAILED_PRECONDITION");
    await isRefused(client.ack({ ...message, message_id: "nothing" }), "NOT_FOUND");
    await isRefused(client.ack(message, { consumer_id: "consumer-9" }), "PERMISSION_DENIED");
    await isRefused(other.ack(message), "PERMISSION_DENIED");
    await client.ack(message);
    await client.ack(message); // the repetition is harmless
    await isRefused(client.nack(message), "FAILED_PRECONDITION");
    assert.equal((await client.stats()).acked, 1);
    const [status, words] = await refused(client.settle("ExtendLease", message));
    assert.equal(status, "FAILED_PRECONDITION");
    assert.match(words, /broker\.extendable_leases/);
}

async function failures_come_again_and_the_last_is_a_dead_letter(own) {
    const [, client] = await both(own, { max_attempts: 2 });
    const id = await client.submit("bad");
    const tokens = new Set();
    for (let attempt = 0; attempt < 2; attempt++) {
        const message = await client.pull();
        assert.equal(message.message_id, id);
        tokens.add(message.attempt_token);
        await client.nack(message, { reason: `größer ${attempt}` });
    }
    assert.equal(tokens.size, 2);
    const { entries, total_size } = await client.call("InspectDlq", { limit: 10 });
    assert.equal(total_size, 1);
    const [entry] = entries;
    assert.deepEqual([entry.message_id, entry.retry_count, entry.reason], [id, 2, "DLQ_MAX_RETRIES_EXCEEDED"]);
    assert.match(entry.details, /größer 1/);
    assert.equal((await client.call("RedriveDlq", { message_id: id })).redriven, 1);
    await client.ack(await client.pull());
    await isRefused(client.call("PurgeDlq", { message_id: id }), "NOT_FOUND");
}

async function strangers_are_refused(own) {
    const [, client] = await both(own);
    for (const producer_id of ["", "producer-1", "producer-00", "consumer-0"])
        await isRefused(client.submit("x", {}, { producer_id }), "PERMISSION_DENIED");
    client.consumer = "consumer-1";
    await isRefused(client.pull(), "PERMISSION_DENIED");
    await isRefused(client.submit("x", {}, { ttl_ms: -1 }), "INVALID_ARGUMENT");
}

async function what_is_full_or_too_large_is_exhausted(own) {
    const [, client] = await both(own, { max_messages: 2, max_message: 100000 });
    await isRefused(client.submit(Buffer.alloc(100001)), "RESOURCE_EXHAUSTED");
    await client.submit("1");
    await client.submit("2");
    const [status, words] = await refused(client.submit("3"));
    assert.deepEqual([status, words], ["RESOURCE_EXHAUSTED", "the broker is full"]);
    await client.ack(await client.pull());
    await client.submit("3");
}

async function what_is_not_there_is_unimplemented(own) {
    const [server, client] = await both(own);
    const same = (bytes) => bytes;
    for (const path of ["/harbinger_rpc.Broker/Nothing", "/other.Service/Submit"]) {
        const call = new Promise((resolve, reject) => client.stub.makeUnaryRequest(path, same, same,
            Buffer.alloc(0), (error) => (error ? reject(error) : resolve())));
        await isRefused(call, "UNIMPLEMENTED");
    }
    const packed = own(new Client(server.address, undefined,
        { "grpc.default_compression_algorithm": grpc.compressionAlgorithms.gzip }));
    const [status, words] = await refused(packed.register());
    assert.equal(status, "UNIMPLEMENTED");
    assert.match(words, /compress/);
}

async function what_cannot_be_decoded_is_refused(own) {
    const [, client] = await both(own);
    const same = (bytes) => bytes;
    for (const method of ["Submit", "Pull", "Ack"]) {
        const call = new Promise((resolve, reject) => client.stub.makeUnaryRequest(
            `/harbinger_rpc.Broker/${method}`, same, same, Buffer.from([0x0a, 0xff, 0xff]),
            (error) => (error ? reject(error) : resolve())));
        await isRefused(call, "INTERNAL");
    }
}

module.exports = {
    payload_and_headers_arrive_unchanged,
    large_messages_pass_in_both_directions,
    many_calls_share_a_channel,
    a_waiting_pull_gets_what_comes,
    a_pull_whose_time_is_over_is_no_error,
    a_deadline_ends_a_waiting_pull,
    a_cancelled_pull_takes_nothing_with_it,
    a_pull_cancelled_in_mid_answer_puts_the_message_back,
    settlements_have_their_status,
    failures_come_again_and_the_last_is_a_dead_letter,
    strangers_are_refused,
    what_is_full_or_too_large_is_exhausted,
    what_is_not_there_is_unimplemented,
    what_cannot_be_decoded_is_refused,
};
