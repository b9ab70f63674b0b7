#!/bin/sh
# command_line.sh HARBINGERD: what --check and --help say, and with which exit code.
set -u
daemon=$1
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"

refused() { # NAME LINE ARGUMENT...: exit code 2 and exactly this line
    name=$1 line=$2
    shift 2
    said=$("$daemon" --check "$@" 2>&1)
    code=$?
    result "$name" "$([ "$code:$said" = "2:$line" ] || echo "exit code $code: $said")"
}

echo "1..12"
refused "a mistyped parameter of the URI" "--set: amqp.uri: unknown parameter 'heartbeet'" \
    --set "amqp.uri=amqp://user:secret@host/?heartbeet=5"
refused "a virtual host with a slash" "--set: amqp.uri: a / in the virtual host's name is written %2f" \
    --set "amqp.uri=amqp://h/a/b"
refused "a port that is none" "--set: amqp.uri: the port is not a number from 1 to 65535" \
    --set "amqp.uri=amqp://h:x/"
refused "one of several URIs" "--set: amqp.uri: number 2 of the list: unknown parameter 'x'" \
    --set "amqp.uri=[amqp://h/, amqp://h/?x=1]"
printf 'mode: static\namqp:\n  uri: amqp://h:0\n' > "$work/wrong.yaml"
refused "the place in the file" "$work/wrong.yaml:3:3: amqp.uri: the port is not a number from 1 to 65535" \
    -c "$work/wrong.yaml"
refused "a password file that is not there" \
    "--set: amqp.password_file: '$work/none' cannot be read: No such file or directory" \
    --set "amqp.password_file=$work/none"
refused "a password file that is a folder" \
    "--set: amqp.password_file: '$work' cannot be read: Is a directory" --set "amqp.password_file=$work"
refused "a section as an option" \
    "--set: 'intake' is a section; expected one of its options; example: --set intake.queue=harbinger.intake" \
    --set intake=5

echo secret > "$work/password"
said=$("$daemon" --check --set "amqp.password_file=$work/password" --set "amqp.uri=amqp://u:p%40@h/v?heartbeat=5" 2>&1) ||
    said="exit code $?: $said"
result "a right configuration is right" "$([ "$said" = "built-in defaults: ok" ] || echo "$said")"
said=$("$daemon" --print-config --set "amqp.password_file=$work/none" 2>&1 > /dev/null) || said="exit code $?: $said"
result "printing needs no password" "$said"
said=$("$daemon" --help 2>&1 > "$work/help") || said="exit code $?: $said"
result "--help is output" "$said$([ -s "$work/help" ] || echo "nothing on standard output")"
"$daemon" --nonsense > "$work/out" 2> "$work/said"
code=$?
result "a wrong argument is 2, on standard error" \
    "$([ $code = 2 ] && [ ! -s "$work/out" ] && [ -s "$work/said" ] || echo "exit code $code: $(cat "$work/out")")"
exit $failed
