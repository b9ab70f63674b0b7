// amqplib, unmodified, as worker and as producer. Run by arm.py; speaks TAP. NODE_LIBRARIES: where amqplib is.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

const amqp = createRequire(process.env.NODE_LIBRARIES + '/')('amqplib')
const workers = process.env.HARBINGER_TEST_WORKERS, rabbit = process.env.HARBINGER_TEST_AMQP
const intake = process.env.HARBINGER_TEST_INTAKE, work = process.env.HARBINGER_TEST_WORK
const LIMIT_MS = 15000

async function until (condition, what) {
  for (const end = Date.now() + LIMIT_MS; ;) {
    const value = await condition()
    if (value) return value
    if (Date.now() > end) throw new Error(`not in time: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}

// A connection of a worker and a channel that consumes into `got`.
async function open (t, { confirm = false, prefetch = 0 } = {}) {
  const connection = await amqp.connect(workers + '?heartbeat=10')
  t.connections.push(connection)
  const channel = await (confirm ? connection.createConfirmChannel() : connection.createChannel())
  if (prefetch) await channel.prefetch(prefetch)
  return channel
}

async function consume (channel, queue, options) {
  const got = []
  const { consumerTag } = await channel.consume(queue, message => got.push(message), options)
  return { got, tag: consumerTag }
}

async function publish (t, count, options = {}) {
  for (let n = 0; n < count; n++) t.producer.sendToQueue(intake, Buffer.from(String(n)), { persistent: true, ...options })
  await t.producer.waitForConfirms()
}

async function take (channel) {
  return until(() => channel.get(work), 'a message to get')
}

const numbers = messages => messages.map(m => Number(m.content)).sort((a, b) => a - b)
const tags = messages => messages.map(m => m.fields.deliveryTag)

const tests = {
  async 'a confirm channel works and publishes' (t) {
    const channel = await open(t, { confirm: true, prefetch: 2 })
    const { got, tag } = await consume(channel, work)
    assert.match(tag, /^amq\.ctag-/, 'RabbitMQ names a consumer without a name')
    for (let n = 0; n < 30; n++) channel.sendToQueue(intake, Buffer.from(String(n)), { persistent: true })
    await channel.waitForConfirms()
    for (let n = 0; n < 30; n++) {
      await until(() => got.length > n, `${n + 1} deliveries`)
      assert.ok(got.length - n <= 2, 'prefetch 2')
      assert.equal(got[n].fields.consumerTag, tag)
      channel.ack(got[n])
    }
    await channel.checkQueue(work) // a close may overtake acks: each test asks something before it
    assert.deepEqual(numbers(got), [...Array(30).keys()])
    assert.deepEqual(tags(got), [...Array(30).keys()].map(n => n + 1))
  },

  async 'nack and reject deliver again' (t) {
    await publish(t, 3)
    const channel = await open(t, { prefetch: 3 })
    const { got } = await consume(channel, work)
    await until(() => got.length === 3, '3 deliveries')
    channel.nack(got[0])
    channel.reject(got[2], true)
    await until(() => got.length === 5, '2 more')
    assert.deepEqual(numbers(got.slice(3)), [0, 2])
    assert.ok(got.slice(3).every(m => m.fields.redelivered), 'redelivered')
    channel.ackAll()
    await channel.checkQueue(work)
  },

  async 'nackAll delivers all again' (t) {
    await publish(t, 4)
    const channel = await open(t, { prefetch: 4 })
    const { got } = await consume(channel, work)
    await until(() => got.length === 4, '4 deliveries')
    channel.nackAll()
    await until(() => got.length === 8, '4 more')
    assert.deepEqual(numbers(got.slice(4)), [0, 1, 2, 3])
    channel.ack(got[7], true)
    await channel.checkQueue(work)
  },

  async 'cancel leaves what comes later, get takes it' (t) {
    const channel = await open(t, { prefetch: 2 })
    const { got, tag } = await consume(channel, work)
    await channel.cancel(tag)
    await publish(t, 2)
    const first = await take(channel), second = await take(channel)
    assert.equal(got.length, 0)
    assert.deepEqual(numbers([first, second]), [0, 1])
    assert.equal(await channel.get(work), false, 'an empty queue')
    channel.ack(first)
    channel.nack(second)
    const again = await take(channel)
    assert.equal(again.fields.redelivered, true)
    channel.ack(again)
    await channel.checkQueue(work)
  },

  async 'an exclusive queue and a fanout beside' (t) {
    await publish(t, 5)
    const channel = await open(t, { confirm: true, prefetch: 20 })
    await channel.assertExchange('clients.node', 'fanout', { autoDelete: true })
    const { queue } = await channel.assertQueue('', { exclusive: true })
    await channel.bindQueue(queue, 'clients.node', '')
    const events = await consume(channel, queue), jobs = await consume(channel, work)
    for (let n = 0; n < 5; n++) channel.publish('clients.node', '', Buffer.from(String(n)))
    await until(() => events.got.length === 5 && jobs.got.length === 5, '5 of each')
    const all = [...events.got, ...jobs.got].sort((a, b) => a.fields.deliveryTag - b.fields.deliveryTag)
    assert.deepEqual(tags(all), [...Array(10).keys()].map(n => n + 1), 'one sequence of tags')
    channel.ack(all[9], true)
    await channel.checkQueue(work)
  },

  async 'calls that are not awaited are answered in order' (t) {
    await publish(t, 4)
    const connection = await amqp.connect(workers)
    t.connections.push(connection)
    const channel = await connection.createChannel()
    const got = []
    const answers = await Promise.all([
      channel.prefetch(4), channel.checkQueue(work), channel.consume(work, m => got.push(m), { consumerTag: 'piped' }),
      channel.assertQueue('', { exclusive: true }), channel.cancel('piped'), channel.checkQueue(work)])
    assert.equal(answers[2].consumerTag, 'piped')
    assert.match(answers[3].queue, /^amq\.gen-/)
    const rest = []
    while (got.length + rest.length < 4) rest.push(await take(channel))
    assert.deepEqual(numbers([...got, ...rest]), [0, 1, 2, 3])
    for (const m of [...rest, ...got]) channel.ack(m)
    await channel.checkQueue(work)
  },

  async 'an unknown tag closes the channel alone' (t) {
    await publish(t, 1)
    const connection = await amqp.connect(workers)
    t.connections.push(connection)
    const channel = await connection.createChannel()
    const closed = new Promise(resolve => channel.once('error', resolve))
    channel.ack({ fields: { deliveryTag: 5 } })
    assert.equal((await closed).code, 406)
    const next = await connection.createChannel()
    next.ack(await take(next))
    await next.checkQueue(work)
  },

  async 'properties and headers arrive as they were sent' (t) {
    const headers = { job_type: 't', none: null, yes: true, number: 1.5, list: [1, 'two', { three: [3] }], deep: { a: { b: null } } }
    const sent = { contentType: 'application/json', contentEncoding: 'utf-8', headers, priority: 3, correlationId: 'c', replyTo: 'r',
      expiration: '600000', messageId: 'm', timestamp: 1700000000, type: 't', userId: 'guest', appId: 'a' }
    await publish(t, 1, sent)
    const channel = await open(t)
    const message = await take(channel)
    for (const name of Object.keys(sent)) assert.deepEqual(message.properties[name], sent[name], name)
    assert.equal(message.properties.deliveryMode, 2)
    assert.equal(message.properties.clusterId, undefined)
    assert.deepEqual([message.fields.exchange, message.fields.routingKey], ['', intake])
    channel.ack(message)
    await channel.checkQueue(work)
  },

  async 'a large body arrives' (t) {
    const body = Buffer.alloc(400000, 'abc')
    t.producer.sendToQueue(intake, body)
    const channel = await open(t, { prefetch: 1 })
    const { got } = await consume(channel, work)
    await until(() => got.length === 1, 'the body')
    assert.ok(got[0].content.equals(body))
    channel.ack(got[0])
    await channel.checkQueue(work)
  },

  async 'a worker that goes away leaves its messages to the next' (t) {
    await publish(t, 3)
    const first = await open(t, { prefetch: 2 })
    const { got } = await consume(first, work)
    await until(() => got.length === 2, '2 deliveries')
    await first.connection.close()
    const next = await open(t, { prefetch: 3 })
    const second = await consume(next, work)
    await until(() => second.got.length === 3, '3 deliveries')
    assert.equal(second.got.filter(m => m.fields.redelivered).length, 2)
    next.ackAll()
    await next.checkQueue(work)
  },

  async 'prefetch for a channel is shared by its consumers' (t) {
    await publish(t, 10)
    const channel = await open(t)
    await channel.prefetch(3, true)
    const one = await consume(channel, work), two = await consume(channel, work)
    const both = () => one.got.length + two.got.length
    await until(() => both() === 3, '3 deliveries')
    await channel.checkQueue(work)
    assert.equal(both(), 3)
    while (both() < 10) {
      const before = both()
      channel.ackAll()
      await until(() => both() > before, 'more')
    }
    channel.ackAll()
    await channel.checkQueue(work)
  },

  async 'without acks a message is settled at once' (t) {
    await publish(t, 20)
    const channel = await open(t, { prefetch: 1 })
    const { got } = await consume(channel, work, { noAck: true })
    await until(() => got.length === 20, '20 deliveries')
    assert.deepEqual(numbers(got), [...Array(20).keys()])
  }
}

async function run (name) {
  const connection = await amqp.connect(rabbit)
  const t = { connections: [connection], producer: await connection.createConfirmChannel() }
  try {
    await tests[name](t)
  } finally {
    for (const each of t.connections) await each.close().catch(() => {})
  }
}

// Takes what a test has left, which would fail the next.
async function drain () {
  const connection = await amqp.connect(workers)
  const channel = await connection.createChannel()
  let count = 0
  while (await channel.get(work, { noAck: true })) count++
  await connection.close()
  return count
}

const chosen = Object.keys(tests).filter(name => name.includes(process.argv[2] ?? ''))
console.log(`1..${chosen.length}`)
for (const [index, name] of chosen.entries()) {
  try {
    await run(name)
    assert.equal(await drain(), 0, 'messages are left')
    console.log(`ok ${index + 1} ${name}`)
  } catch (error) {
    console.log(`not ok ${index + 1} ${name}`)
    console.error(error)
    await drain()
    process.exitCode = 1
  }
}
