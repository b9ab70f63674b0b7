"use strict";
/* What stands around the calls: health, TLS and the token, draining, the end of a server, pings. */
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { assert, grpc, waitUntil, Server, Client, both, isRefused, CALL_MS } = require("./harness");

function watch(client, service = "") {
    const call = client.health.Watch({ service }, { deadline: Date.now() + CALL_MS });
    call.on("error", () => {});
    const messages = call[Symbol.asyncIterator]();
    return async () => (await messages.next()).value?.status;
}

async function health_is_told(own) {
    const [, client] = await both(own);
    for (const service of ["", "harbinger_rpc.Broker"])
        assert.equal((await client.call("Check", { service })).status, "SERVING");
    await isRefused(client.call("Check", { service: "other" }), "NOT_FOUND");
    const [next, unknown] = [watch(client), watch(client, "other")];
    assert.equal(await next(), "SERVING");
    assert.equal(await unknown(), "SERVICE_UNKNOWN");
    await client.call("Drain");
    assert.equal(await next(), "NOT_SERVING");
    assert.equal((await client.call("Check")).status, "NOT_SERVING");
}

async function draining_refuses_submissions_and_serves_the_rest(own) {
    const [server, client] = await both(own);
    await client.submit("x");
    assert.equal((await client.call("Drain")).waiting, 1);
    await isRefused(client.submit("y"), "UNAVAILABLE");
    await client.ack(await client.pull());
    const { draining, acked } = await client.stats();
    assert.deepEqual([draining, acked], [true, 1]);
    server.terminate();
    assert.equal(await server.ended, 0);
}

/* GOAWAY: what waits is answered, what works may settle, and then the server is gone. */
async function a_server_that_stops_says_so_and_lets_work_be_settled(own) {
    const [server, client] = await both(own);
    await client.submit("x");
    const work = client.stub.Work({ deadline: Date.now() + CALL_MS });
    work.on("error", () => {});
    const messages = work[Symbol.asyncIterator]();
    work.write({ consumer_id: client.consumer, credit: 1 });
    const [message] = (await messages.next()).value.deliveries;
    const pull = client.pull();
    const next = watch(client);
    assert.equal(await next(), "SERVING");
    server.terminate();
    assert.equal(await pull, null);
    assert.equal(await next(), "NOT_SERVING");
    await isRefused(next(), "UNAVAILABLE");
    const { message_id, attempt_token } = message;
    work.write({ settlements: [{ message_id, attempt_token, duration_ms: 1 }] });
    await isRefused(messages.next(), "UNAVAILABLE");
    await isRefused(client.stats(), "UNAVAILABLE");
    assert.equal(await server.ended, 0);
}

/* The channel comes back by itself; the new server does not know the old names. */
async function a_channel_finds_a_server_that_was_started_anew(own) {
    const [server, client] = await both(own);
    await client.submit("x");
    server.terminate();
    await server.ended;
    own(await Server.start({ listen: server.address }));
    await waitUntil(async () => {
        const [status] = await client.submit("y").then(() => ["OK"], (e) => [grpc.status[e.code]]);
        return status === "PERMISSION_DENIED";
    }, "the new server's answer");
    await client.register();
    const id = await client.submit("z");
    assert.equal((await client.pull()).message_id, id);
}

function certificate(folder) {
    const [key, cert] = ["key.pem", "cert.pem"].map((name) => path.join(folder, name));
    execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert], { stdio: "ignore" });
    return { key, certificate: cert };
}

function bearer(token) {
    return grpc.credentials.createFromMetadataGenerator((_, done) => {
        const metadata = new grpc.Metadata();
        metadata.set("authorization", `Bearer ${token}`);
        done(null, metadata);
    });
}

async function tls_and_a_token_guard_the_door(own) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "harbinger-tls."));
    own({ close: () => fs.rmSync(folder, { recursive: true }) });
    const files = certificate(folder);
    const token_file = path.join(folder, "token");
    fs.writeFileSync(token_file, "secret\n");
    const server = own(await Server.start({ ...files, token_file }));
    const tls = grpc.credentials.createSsl(fs.readFileSync(files.certificate));
    const address = `localhost:${server.port}`;
    await isRefused(own(new Client(address, tls)).register(), "UNAUTHENTICATED");
    const wrong = grpc.credentials.combineChannelCredentials(tls, bearer("secreT"));
    await isRefused(own(new Client(address, wrong)).register(), "UNAUTHENTICATED");
    const right = grpc.credentials.combineChannelCredentials(tls, bearer("secret"));
    const client = await own(new Client(address, right)).register();
    const payload = Buffer.alloc(500000, "large and secret ");
    await client.submit(payload, { "straße": "größer" });
    const message = await client.pull();
    assert(message.payload.equals(payload));
    assert.equal(message.headers["straße"], "größer");
    await client.ack(message);
    const anyone = own(new Client(address, tls));
    assert.equal((await anyone.call("Check")).status, "SERVING", "health needs no token");
    await isRefused(own(new Client(address)).register(), "UNAVAILABLE", "in the clear");
    const stranger = own(new Client(address, grpc.credentials.createSsl()));
    await isRefused(stranger.register(), "UNAVAILABLE", "a certificate that nobody has signed");
}

async function large_headers_of_a_request_are_refused(own) {
    const [, client] = await both(own);
    const metadata = new grpc.Metadata();
    metadata.set("x-long", "x".repeat(4000));
    metadata.set("x-bytes-bin", Buffer.from("größer"));
    const call = () => new Promise((resolve, reject) => client.stub.Stats({}, metadata,
        { deadline: Date.now() + CALL_MS }, (error, answer) => (error ? reject(error) : resolve(answer))));
    assert.equal((await call()).submitted, 0);
    metadata.set("x-longer", "x".repeat(17000));
    await assert.rejects(call());
    assert.equal((await client.stats()).submitted, 0, "the channel goes on");
}

/* A client that asks often whether the server is there is answered, not sent away. */
async function frequent_pings_are_answered(own) {
    const server = own(await Server.start());
    const client = await own(new Client(server.address, undefined,
        { "grpc.keepalive_time_ms": 20, "grpc.keepalive_timeout_ms": 5000 })).register();
    assert.equal(await client.pull(600), null);
    assert.equal(client.stub.getChannel().getConnectivityState(false), grpc.connectivityState.READY);
    await client.submit("x");
    await client.ack(await client.pull());
}

async function calls_beyond_the_stream_limit_wait_for_their_turn(own) {
    const server = own(await Server.start({ max_streams: 5 }));
    const client = await own(new Client(server.address)).register();
    const ids = await Promise.all(Array.from({ length: 50 }, (_, i) => client.submit(String(i))));
    assert.equal(new Set(ids).size, 50);
}

module.exports = {
    health_is_told,
    draining_refuses_submissions_and_serves_the_rest,
    a_server_that_stops_says_so_and_lets_work_be_settled,
    a_channel_finds_a_server_that_was_started_anew,
    tls_and_a_token_guard_the_door,
    large_headers_of_a_request_are_refused,
    frequent_pings_are_answered,
    calls_beyond_the_stream_limit_wait_for_their_turn,
};
