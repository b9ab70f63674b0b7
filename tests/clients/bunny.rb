# Bunny, unmodified, as worker and as producer. Run by arm.py; speaks TAP.
require "bunny"

WORKERS, RABBIT = ENV.fetch("HARBINGER_TEST_WORKERS"), ENV.fetch("HARBINGER_TEST_AMQP")
INTAKE, WORK = ENV.fetch("HARBINGER_TEST_INTAKE"), ENV.fetch("HARBINGER_TEST_WORK")
LIMIT_S = 15

def wait_until(what)
  limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT_S
  until (value = yield)
    raise "not in time: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
    sleep 0.01
  end
  value
end

def equal(got, wanted, what)
  raise "#{what}: got #{got.inspect}, wanted #{wanted.inspect}" unless got == wanted
end

def connect(uri = WORKERS)
  (@open ||= []) << Bunny.new(uri, automatically_recover: false, logger: Logger.new(File::NULL)).start
  @open.last
end

def publish(count, **options)
  channel = connect(RABBIT).create_channel
  channel.confirm_select
  count.times { |n| channel.default_exchange.publish(n.to_s, routing_key: INTAKE, persistent: true, **options) }
  equal channel.wait_for_confirms, true, "confirms"
end

def worker(prefetch)
  channel = connect.create_channel
  channel.prefetch(prefetch)
  channel
end

# Consumes into an array of [delivery, properties, body].
def consume(channel, **options)
  got = Queue.new
  channel.queue(WORK, passive: true).subscribe(manual_ack: true, **options) { |*delivery| got << delivery }
  got
end

# `count` deliveries, and no more.
def take(got, count)
  wait_until("#{count} deliveries") { got.size >= count }
  equal got.size, count, "deliveries"
  Array.new(count) { got.pop }
end

def numbers(deliveries)
  deliveries.map { |_, _, body| body.to_i }.sort
end

# A round trip: what was acked before it is.
def sync(channel)
  channel.queue(WORK, passive: true)
end

TESTS = {
  "acks and prefetch" => lambda {
    publish 10
    channel = worker 2
    got = consume channel
    seen = []
    5.times do
      two = take got, 2
      channel.ack two[1][0].delivery_tag, true
      seen += two
    end
    equal numbers(seen), (0..9).to_a, "messages"
    equal seen.map { |d, _, _| d.delivery_tag.to_i }, (1..10).to_a, "tags"
    equal seen.any? { |d, _, _| d.redelivered? }, false, "redelivered"
    sync channel
  },
  "nack, reject and recover deliver again" => lambda {
    publish 3
    channel = worker 3
    got = consume channel
    first = take got, 3
    channel.nack first[0][0].delivery_tag, false, true
    channel.reject first[1][0].delivery_tag, true
    equal numbers(again = take(got, 2)), [0, 1], "what came again"
    equal again.all? { |d, _, _| d.redelivered? }, true, "redelivered"
    channel.basic_recover true
    last = take got, 3
    equal numbers(last), [0, 1, 2], "all came again"
    channel.ack last.map { |d, _, _| d.delivery_tag.to_i }.max, true
    sync channel
  },
  "get" => lambda {
    publish 2
    channel = worker 0
    queue = channel.queue(WORK, passive: true)
    one = wait_until("a message") { got = queue.pop(manual_ack: true); got if got[0] }
    two = wait_until("a message") { got = queue.pop(manual_ack: true); got if got[0] }
    equal numbers([one, two]), [0, 1], "messages"
    equal queue.pop(manual_ack: true), [nil, nil, nil], "an empty queue"
    channel.ack two[0].delivery_tag, true
    sync channel
  },
  "a closed connection leaves its messages to the next" => lambda {
    publish 3
    channel = worker 3
    take consume(channel), 3
    channel.connection.close
    channel = worker 3
    again = take consume(channel), 3
    equal again.all? { |d, _, _| d.redelivered? }, true, "redelivered"
    again.each { |d, _, _| channel.ack d.delivery_tag }
    sync channel
  },
  "a cancelled consumer gets nothing more" => lambda {
    channel = worker 5
    got = Queue.new
    consumer = channel.queue(WORK, passive: true).subscribe(manual_ack: true) { |*delivery| got << delivery }
    consumer.cancel
    publish 2
    again = consume channel
    take(again, 2).each { |d, _, _| channel.ack d.delivery_tag }
    equal got.size, 0, "deliveries to the cancelled"
    sync channel
  },
  "properties arrive as they were sent" => lambda {
    headers = { "job_type" => "t", "none" => nil, "list" => [1, "two", [3]], "deep" => { "a" => { "b" => 2.5 } } }
    publish 1, headers: headers, type: "t", app_id: "a", user_id: "guest", message_id: "m", correlation_id: "c",
               reply_to: "r", expiration: "600000", priority: 3, content_type: "x/y", content_encoding: "z",
               timestamp: 1_700_000_000
    channel = worker 1
    delivery, properties, = take(consume(channel), 1)[0]
    equal properties.headers, headers, "headers"
    plain = properties.to_hash.reject { |name, _| name == :headers }
    equal plain, { type: "t", app_id: "a", user_id: "guest", message_id: "m", correlation_id: "c", reply_to: "r",
                   expiration: "600000", priority: 3, content_type: "x/y", content_encoding: "z",
                   timestamp: Time.at(1_700_000_000), delivery_mode: 2 }, "properties"
    equal [delivery.exchange, delivery.routing_key], ["", INTAKE], "published to"
    channel.ack delivery.delivery_tag
    sync channel
  },
  "an unknown tag closes the channel alone" => lambda {
    connection = connect
    channel = connection.create_channel
    closed = nil
    channel.on_error { |_, method| closed = method.reply_code }
    channel.basic_ack 7
    wait_until("a closed channel") { closed }
    equal closed, 406, "reply code"
    publish 1
    channel = connection.create_channel
    take(consume(channel), 1).each { |d, _, _| channel.ack d.delivery_tag }
    sync channel
  },
  "a large body and an empty one arrive" => lambda {
    channel = connect.create_channel
    channel.confirm_select
    bodies = ["", "abc" * 140_000]
    bodies.each { |body| channel.default_exchange.publish(body, routing_key: INTAKE) }
    equal channel.wait_for_confirms, true, "confirms"
    got = take consume(channel), 2
    equal got.map { |_, _, body| body || "" }.sort, bodies, "bodies"
    channel.ack got.map { |d, _, _| d.delivery_tag.to_i }.max, true
    sync channel
  }
}.freeze

def run(name)
  TESTS[name].call
ensure
  (@open || []).each { |connection| connection.close if connection.open? }
  @open = []
end

# Takes what a test has left, which would fail the next.
def drain
  queue = connect.create_channel.queue(WORK, passive: true)
  count = 0
  count += 1 while queue.pop[0]
  count
end

chosen = TESTS.keys.select { |name| name.include?(ARGV[0] || "") }
puts "1..#{chosen.size}"
failed = false
chosen.each_with_index do |name, index|
  begin
    run name
    equal drain, 0, "messages left"
    puts "ok #{index + 1} #{name}"
  rescue StandardError, Timeout::Error => e
    failed = true
    puts "not ok #{index + 1} #{name}"
    drain
    warn e.full_message(highlight: false)
  end
  $stdout.flush
end
exit failed ? 1 : 0
