# Sourced by shell tests: a folder of the test's own, $work, that goes with it; results as TAP.
# shellcheck shell=sh
# shellcheck disable=SC2034 # $failed is the test's exit code
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 failed=0

result() { # NAME COMPLAINTS
    n=$((n + 1))
    if [ -z "$2" ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        echo "$2" | sed 's/^/# /'
        failed=1
    fi
}
