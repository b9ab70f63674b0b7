#!/usr/bin/env node
// A RabbitMQ worker that tells Harbinger how long each job took (Node, amqplib).
//
//     worker.mjs [AMQP-URI [WORK-QUEUE]]
//
// What Harbinger adds to an ordinary worker is report() and the clock around handle(). Any lost
// connection ends the program: its supervisor (systemd, a container runtime) starts it again.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import amqp from 'amqplib';
const REPORTS = 'harbinger.reports';

// The work itself: yours goes here. These jobs carry the milliseconds to sleep.
async function handle(body) {
  await sleep(JSON.parse(body).ms);
}

// Publishes what the job took. A message that did not pass Harbinger has no id and no report.
function report(channel, headers, durationMs, outcome) {
  const { 'x-harbinger-id': id, 'x-harbinger-key': key } = headers;
  if (id === undefined || key === undefined) return;
  const fields = { id, key, duration_ms: durationMs, outcome };
  channel.publish(REPORTS, '', Buffer.from(JSON.stringify(fields))); // transient, no confirm
}

function die(error) {
  console.error('worker:', error?.message ?? error);
  process.exit(1);
}

const [uri = 'amqp://guest:guest@127.0.0.1:5672/%2f', queue = 'harbinger.work'] = process.argv.slice(2);
// Two connections: while RabbitMQ is short of memory or disk it does not read a connection that has
// published, and the acks must get through. Reports are then skipped: they only teach.
const work = await amqp.connect(uri);
const reports = await amqp.connect(uri);
let [blocked, stop] = [false, false];
let current = Promise.resolve();
reports.on('blocked', () => { blocked = true; });
reports.on('unblocked', () => { blocked = false; });
const reportChannel = await reports.createChannel();
const channel = await work.createChannel();
for (const part of [work, reports, channel, reportChannel]) {
  part.on('error', die);
  part.on('close', () => { if (!stop) die('connection lost'); });
}
await channel.prefetch(1); // what a worker holds can no longer be overtaken

async function job(message) {
  const started = performance.now();
  let outcome = 'ok';
  try { await handle(message.content); } catch (error) {
    console.error('job failed:', error);
    outcome = 'error';
  }
  // The report goes first: once acked, the job is forgotten.
  if (!blocked) report(reportChannel, message.properties.headers ?? {}, performance.now() - started, outcome);
  if (outcome === 'ok') channel.ack(message);
  else channel.nack(message, false, false); // to the dead-letter exchange
}
await channel.consume(queue, (message) => {
  if (message === null) die('the queue was deleted');
  else if (!stop) current = job(message); // a job that comes while stopping goes back to the queue
});
process.on('SIGTERM', async () => {
  stop = true;
  await current; // the current job is finished
  await Promise.allSettled([channel.close(), reportChannel.close()]); // sends what waits in them
  await Promise.allSettled([work.close(), reports.close()]);
});
