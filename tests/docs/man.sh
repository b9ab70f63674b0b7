#!/bin/sh
# man.sh ROOT CONF_GEN: the manual pages are clean mdoc and know every option of the file and of the command line.
set -eu
gen=$(readlink -f "$2")
cd "$1"
echo "1..4"
failed=0
result() { # NUMBER NAME COMPLAINTS
    if [ -z "$3" ]; then
        echo "ok $1 - $2"
    else
        echo "not ok $1 - $2"
        echo "$3" | sed 's/^/# /'
        failed=1
    fi
}

if command -v mandoc > /dev/null; then
    # References to pages that are not installed here are fine.
    result 1 "mandoc finds nothing" \
        "$(mandoc -T lint -W style deploy/man/*.[158] | grep -v 'referenced manual not found' || true)"
else
    echo "ok 1 # SKIP no mandoc"
fi
result 2 "every option is in harbinger.yaml(5)" \
    "$("$gen" keys | while read -r key; do
        grep -q "^\.It Ic $key\( Ns\|\$\)" deploy/man/harbinger.yaml.5 || echo "$key"
    done)"
result 3 "every option is in the sample file" \
    "$("$gen" keys | while read -r key; do grep -q "^ *${key##*.}:" config/harbinger.yaml || echo "$key"; done)"
result 4 "every key that a page shows exists" \
    "$(sed -n 's/^\.Ic \([a-z_.]*\).*/\1/p' deploy/man/*.[158] | sort -u | while read -r key; do
        "$gen" keys | grep -qxF "$key" || echo "$key"
    done)"
exit $failed
