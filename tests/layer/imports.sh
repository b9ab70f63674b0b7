#!/bin/sh
# imports.sh ALLOWED ARCHIVE...           each archive imports only what ALLOWED lists, or what another one defines
# imports.sh --refuses SYMBOL ALLOWED ARCHIVE...   the check itself: it must name SYMBOL as forbidden
# Sanitizers and coverage add imports of their own: there the test is skipped (HARBINGER_PLAIN=0).
set -eu
export LC_ALL=C

refuses=
if [ "$1" = --refuses ]; then
    refuses=$2
    shift 2
fi
if [ "${HARBINGER_PLAIN:-1}" = 0 ]; then
    echo "1..0 # SKIP an instrumented build imports more"
    exit 0
fi
allowed=$1
shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep -v '^#' "$allowed" > "$work/patterns"
for archive; do
    nm --defined-only "$archive" | awk 'NF == 3 { print $3 }'
done | sort -u > "$work/defined"

echo "1..$#"
n=0 failed=0
for archive; do
    n=$((n + 1))
    nm -u "$archive" | awk '$1 == "U" || $1 == "w" { print $2 }' | sort -u |
        comm -23 - "$work/defined" | grep -vxf "$work/patterns" > "$work/forbidden" || true
    name=$(basename "$archive")
    if [ -n "$refuses" ]; then
        if grep -qx "$refuses" "$work/forbidden"; then
            echo "ok $n - $name is refused for $refuses"
        else
            echo "not ok $n - $name is not refused for $refuses"
            failed=1
        fi
    elif [ -s "$work/forbidden" ]; then
        echo "not ok $n - $name is pure"
        sed 's/^/# imports /' "$work/forbidden"
        failed=1
    else
        echo "ok $n - $name is pure"
    fi
done
exit $failed
