"use strict";
/* What the tests in JavaScript share: a TAP runner, the server, a client whose calls are promises.
 * HARBINGER_RPC_SERVER is the program, HARBINGER_PROTO the folder of the .proto files. */
const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const readline = require("node:readline");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const SERVER = process.env.HARBINGER_RPC_SERVER;
const proto = grpc.loadPackageDefinition(loader.loadSync(["harbinger.proto", "health.proto"], {
    includeDirs: [process.env.HARBINGER_PROTO], keepCase: true, longs: Number, defaults: true, enums: String,
}));
const Broker = proto.harbinger_rpc.Broker;
const Health = proto.grpc.health.v1.Health;
const LIMIT_MS = 20000; // of one test
const CALL_MS = 10000; // of one call

/* Runs each exported function of `files`, in order. Arguments choose by part of the name. */
async function main(files) {
    const wanted = process.argv.slice(2);
    const tests = files.flatMap((file) => Object.entries(file))
        .filter(([name]) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
    let failed = 0;
    console.log(`1..${tests.length}`);
    for (const [index, [name, test]] of tests.entries()) {
        const error = await outcome(test);
        console.log(`${error ? "not ok" : "ok"} ${index + 1} ${name}`);
        if (error) {
            failed += 1;
            console.error(error);
        }
    }
    process.exit(failed > 0 || tests.length === 0 ? 1 : 0);
}

async function outcome(test) {
    const things = [];
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not within ${LIMIT_MS} ms`)), LIMIT_MS);
    });
    try {
        await Promise.race([test((thing) => things.push(thing) && thing), late]);
        return null;
    } catch (error) {
        return error ?? new Error("the test threw nothing");
    } finally {
        clearTimeout(timer);
        for (const thing of things.reverse())
            thing.close();
    }
}

async function waitUntil(condition, what) {
    const end = Date.now() + CALL_MS;
    while (!await condition()) {
        assert(Date.now() < end, `not within ${CALL_MS} ms: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}

/* rpc_server; `options` are its NAME=VALUE arguments. */
class Server {
    static async start(options = {}) {
        const server = new Server();
        const words = Object.entries(options).map(([name, value]) => `${name}=${value}`);
        server.process = spawn(SERVER, words, { stdio: ["ignore", "pipe", "inherit"] });
        server.ended = once(server.process, "exit").then(([code]) => code);
        const [line] = await once(readline.createInterface(server.process.stdout), "line");
        assert.match(line, /^Ready port=\d+$/);
        server.port = Number(line.split("=")[1]);
        server.address = `127.0.0.1:${server.port}`;
        return server;
    }

    /* In order; the exit code comes with `ended`. */
    terminate() {
        this.process.kill("SIGTERM");
    }

    close() {
        this.process.kill("SIGKILL");
    }
}

/* One channel with a producer and a consumer. */
class Client {
    constructor(address, credentials = grpc.credentials.createInsecure(), options = {}) {
        const own = { "grpc.use_local_subchannel_pool": 1, ...options };
        this.stub = new Broker(address, credentials, own);
        this.health = new Health(address, credentials, own);
        this.producer = this.consumer = "";
    }

    /* The answer of a unary call; `settings` are grpc-js's call options, `hold` gets the call. */
    call(method, request = {}, settings = {}, hold = () => {}) {
        const options = { deadline: Date.now() + CALL_MS, ...settings };
        const stub = method === "Check" ? this.health : this.stub;
        return new Promise((resolve, reject) => {
            hold(stub[method](request, new grpc.Metadata(), options,
                (error, answer) => (error ? reject(error) : resolve(answer))));
        });
    }

    async register() {
        this.producer = (await this.call("RegisterProducer")).producer_id;
        this.consumer = (await this.call("RegisterConsumer")).consumer_id;
        return this;
    }

    async submit(payload = "", headers = {}, more = {}) {
        const request = { producer_id: this.producer, payload: Buffer.from(payload), headers, ...more };
        return (await this.call("Submit", request)).message_id;
    }

    /* A PulledMessage, or null when time was over. */
    async pull(timeout_ms = 5000, settings = {}, hold = () => {}) {
        const answer = await this.call("Pull", { consumer_id: this.consumer, timeout_ms }, settings, hold);
        return answer.timed_out ? null : answer.message;
    }

    settle(method, message, more = {}) {
        const { message_id, attempt_token } = message;
        return this.call(method, { consumer_id: this.consumer, message_id, attempt_token, ...more });
    }

    ack(message, more) {
        return this.settle("Ack", message, more);
    }

    nack(message, more) {
        return this.settle("Nack", message, more);
    }

    stats() {
        return this.call("Stats");
    }

    close() {
        this.stub.close();
        this.health.close();
    }
}

/* A server and a registered client, which end with the test. */
async function both(own, options = {}) {
    const server = own(await Server.start(options));
    return [server, await own(new Client(server.address)).register()];
}

/* The name of the status with which a promise is rejected, and its words. */
async function refused(promise) {
    try {
        await promise;
    } catch (error) {
        assert.equal(typeof error.code, "number", error.stack);
        return [grpc.status[error.code], error.details];
    }
    throw new Error("the call succeeded");
}

async function isRefused(promise, name) {
    assert.equal((await refused(promise))[0], name);
}

module.exports = { assert, grpc, main, waitUntil, Server, Client, both, refused, isRefused, CALL_MS };
