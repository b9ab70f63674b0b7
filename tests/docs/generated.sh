#!/bin/sh
# generated.sh ROOT CONF_GEN [--write]: what is generated from the table of options is what the tree holds.
#   --write   brings the tree up to date instead
set -eu
export LC_ALL=C
gen=$(readlink -f "$2")
cd "$1"
write=${3:-}
begin='^\.\\" The options are generated' end='^\.\\" End of the generated'
man=deploy/man/harbinger.yaml.5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$gen" yaml > "$work/harbinger.yaml"
"$gen" minimal > "$work/harbinger-minimal.yaml"
{
    sed "/$begin/q" "$man"
    "$gen" man
    sed -n "/$end/,\$p" "$man"
} > "$work/harbinger.yaml.5"

echo "1..3"
n=0 failed=0
for file in config/harbinger.yaml config/harbinger-minimal.yaml "$man"; do
    n=$((n + 1))
    [ "$write" != --write ] || cp "$work/$(basename "$file")" "$file"
    if diff -u "$file" "$work/$(basename "$file")" > "$work/diff"; then
        echo "ok $n - $file"
    else
        echo "not ok $n - $file is not what conf_gen prints (tests/docs/generated.sh . BUILD/src/conf/conf_gen --write)"
        sed 's/^/# /' "$work/diff"
        failed=1
    fi
done
exit $failed
