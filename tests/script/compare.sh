#!/bin/sh
# compare.sh RUNNER SCRIPT: the runner's output must be the text beside the script. UPDATE=1 writes it instead.
set -eu
expect="${2%.script}.expect"
if [ "${UPDATE:-}" = 1 ]; then
    exec "$1" "$2" > "$expect"
fi
"$1" "$2" | diff -u "$expect" -
