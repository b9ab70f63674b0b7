#!/bin/sh
# headers.sh ROOT GENERATED COMPILER...: each header compiles alone, twice in a row (its guard works), without a warning.
set -eu
cd "$1"
generated=$2
shift 2

headers=$(find include src -name '*.h' | sort)
# shellcheck disable=SC2086 # one word per header
set -- "$@" -- $headers
command=
while [ "$1" != -- ]; do
    command="$command $1"
    shift
done
shift
echo "1..$#"
n=0 failed=0
for header; do
    n=$((n + 1))
    name=${header#*/}
    if printf '#include "%s"\n#include "%s"\n' "$name" "$name" |
        $command -std=c17 -D_GNU_SOURCE -Isrc -Iinclude -I"$generated" -Wall -Wextra -Wno-unused-parameter -Werror \
            -fsyntax-only -x c - > /dev/null 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        failed=1
    fi
done
exit $failed
