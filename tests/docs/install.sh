#!/bin/sh
# install.sh BUILD: `meson install` brings the programs, their manual pages, a unit that calls that daemon, and
# libraries that other programs can be built with.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "1..4"
failed=0
said=$(DESTDIR="$work" meson install -C "$1" --no-rebuild 2>&1) || { echo "$said" | sed 's/^/# /'; exit 1; }

missing=$(for file in harbinger harbinger.1 harbingerd harbingerd.8 harbinger.yaml.5 harbingerd.service amqp.md backends.md broker.md harbinger.proto harbinger-minimal.yaml lab-report plot; do
    [ "$(find "$work" -type f -name "$file" | wc -l)" -eq 1 ] || echo "$file"
done)
if [ -z "$missing" ]; then
    echo "ok 1 - everything is installed"
else
    echo "not ok 1 - not installed: $missing"
    failed=1
fi
unit=$(find "$work" -name harbingerd.service)
called=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$unit")
if [ -n "$called" ] && [ -x "$work$called" ]; then
    echo "ok 2 - the unit calls the daemon"
else
    echo "not ok 2 - the unit calls '$called'"
    failed=1
fi

# A sanitizer's runtime would have to be linked into the other program as well, and adds symbols.
if [ "${HARBINGER_PLAIN:-1}" = 0 ]; then
    echo "ok 3 - another program is built with the installed library # SKIP only in a plain build"
    echo "ok 4 - what the headers declare is visible, and nothing else # SKIP only in a plain build"
    exit $failed
fi
pc=$(dirname "$(find "$work" -name harbinger.pc)")
flags=$(PKG_CONFIG_SYSROOT_DIR="$work" PKG_CONFIG_PATH="$pc" pkg-config --cflags --libs harbinger)
libs=$(dirname "$(find "$work" -name libharbinger.so)")
# shellcheck disable=SC2086 # flags are words
if cc -Wall -Werror "$(dirname "$0")/embed.c" -o "$work/embed" $flags &&
    said=$(LD_LIBRARY_PATH="$libs" "$work/embed") && [ "${said#* }" = "0 1" ]; then
    echo "ok 3 - another program is built with the installed library"
else
    echo "not ok 3 - another program is built with the installed library: $flags: ${said:-}"
    failed=1
fi

include=$(dirname "$(find "$work" -name broker.h)")
for library in libharbinger libharbinger-client; do
    nm -D --defined-only "$libs/$library.so" || echo "- - unreadable:$library.so"
done | awk '{print $3}' | sort -u > "$work/visible"
grep -hoE '\bhb_[a-z0-9_]+\(' "$include"/*.h | tr -d '(' | sort -u > "$work/declared"
differ=$(comm -3 "$work/declared" "$work/visible" | tr -s '\t\n' ' ')
if [ -s "$work/visible" ] && [ -z "$differ" ]; then
    echo "ok 4 - what the headers declare is visible, and nothing else"
else
    echo "not ok 4 - only declared, or only visible: $differ"
    failed=1
fi
exit $failed
