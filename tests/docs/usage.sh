#!/bin/sh
# usage.sh ROOT: --help of what people call by hand is output and a success, a wrong argument is neither.
set -u
cd "$1" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 failed=0

ends_with() { # CODE FULL EMPTY NAME COMMAND...: the exit code, which stream has text and which has none
    code=$1 full=$2 empty=$3 name=$4
    shift 4
    "$@" > "$work/out" 2> "$work/err"
    got=$?
    n=$((n + 1))
    if [ $got -eq "$code" ] && grep -qF "$name" "$work/$full" && [ ! -s "$work/$empty" ]; then
        echo "ok $n - $*"
    else
        echo "not ok $n - $*: exit code $got"
        sed 's/^/# /' "$work/out" "$work/err"
        failed=1
    fi
}

echo "1..4"
ends_with 0 out err "demo [--backend rabbitmq|harbinger] [--json]:" scripts/demo --help
ends_with 2 err out "demo [--backend rabbitmq|harbinger] [--json]:" scripts/demo --nonsense
ends_with 0 out err "rabbit-node start DIR" tests/lib/rabbit-node --help
ends_with 2 err out "rabbit-node start DIR" tests/lib/rabbit-node
exit $failed
