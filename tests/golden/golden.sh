# Sourced by the scripts beside it: each works in an empty folder of its own, speaks TAP, and compares with the
# expected texts here. After a wanted change: UPDATE=1 meson test --suite golden, and read the difference.
# shellcheck shell=bash
set -u
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck source=tests/lib/tap.sh
. "$here/../lib/tap.sh"
cd "$work" || exit 1

# golden NAME CODE COMMAND...: exit code, standard output and standard error
golden() {
    local name=$1 code=$2 got
    shift 2
    "$@" > out 2> err
    got=$?
    { cat out && sed 's/^/stderr: /' err; } > said
    [ "${UPDATE:-}" != 1 ] || cp said "$here/$name.expect"
    result "$name" "$([ $got -eq "$code" ] || echo "exit code $got"; diff -u "$here/$name.expect" said)"
}

same() { # NAME FILE FILE
    result "$1" "$(cmp "$2" "$3" 2>&1; [ -s "$2" ] || echo "$2 is empty")"
}

# refuses NAME CODE TEXT COMMAND...: the exit code, the first line on standard error, and nothing on standard output
refuses() {
    local name=$1 code=$2 text=$3 got
    shift 3
    "$@" > out 2> err
    got=$?
    result "$name" "$([ "$got:$(head -n 1 err)" = "$code:harbinger: $text" ] || cat err)$(cat out)"
}
