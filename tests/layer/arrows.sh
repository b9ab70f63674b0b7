#!/bin/sh
# arrows.sh ROOT: each folder of src includes only from folders to its left, and the public headers only each other.
set -eu
cd "$1"

echo "1..20"
n=0 failed=0
# check FOLDER ALLOWED-FOLDERS
check() {
    n=$((n + 1))
    folder=$1
    shift
    pattern=$(echo "$folder" "$@" | tr ' ' '|')
    found=$(grep -rnE '^#include "' "$folder" --include='*.[ch]' 2> /dev/null |
        grep -vE "#include \"($pattern)/" || true)
    if [ -z "$found" ]; then
        echo "ok $n - $folder includes from its left only"
    else
        echo "not ok $n - $folder includes from its left only"
        echo "$found" | sed 's/^/# /'
        failed=1
    fi
}
cd src
check base
check predict base harbinger
check policy base harbinger
check broker base harbinger policy
check port base harbinger
check flow base harbinger predict policy broker port
check lab base harbinger
check sim base harbinger predict policy broker port flow lab
check conf base harbinger predict policy broker port flow
check amqp base harbinger predict policy broker port flow
check http base harbinger predict policy broker port flow
check store base harbinger predict policy broker port flow
check rpc base harbinger predict policy broker port flow
check proxy base harbinger amqp
check client base harbinger rpc
check sidecar base harbinger predict policy broker port flow conf amqp http store rpc proxy
check trace base harbinger predict
check cli base harbinger client rpc trace sim lab

n=$((n + 1))
if grep -rn '#include "' ../include | grep -v '#include "harbinger/'; then
    echo "not ok $n - public headers need nothing private"
    failed=1
else
    echo "ok $n - public headers need nothing private"
fi

# A folder without a rule would never be checked.
n=$((n + 1))
unknown=
for folder in */; do
    case $folder in
    base/ | predict/ | policy/ | broker/ | port/ | flow/ | lab/ | sim/ | conf/ | amqp/ | http/ | store/ | rpc/ | proxy/ | client/ | trace/ | sidecar/ | cli/) ;;
    *) unknown="$unknown $folder" ;;
    esac
done
if [ -z "$unknown" ]; then
    echo "ok $n - every folder has a rule"
else
    echo "not ok $n - every folder has a rule: $unknown"
    failed=1
fi
exit $failed
