#!/bin/sh
# install.sh BUILD: `meson install` brings the programs, their manual pages and a unit that calls that daemon.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "1..2"
failed=0
said=$(DESTDIR="$work" meson install -C "$1" --no-rebuild 2>&1) || { echo "$said" | sed 's/^/# /'; exit 1; }

missing=$(for file in harbinger harbinger.1 harbingerd harbingerd.8 harbinger.yaml.5 harbingerd.service amqp.md harbinger-minimal.yaml; do
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
exit $failed
