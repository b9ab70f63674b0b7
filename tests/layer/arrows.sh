#!/bin/sh
# arrows.sh ROOT: each folder of src includes only from folders to its left, and the public headers only each other.
set -eu
cd "$1"

echo "1..12"
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
pure="base harbinger"
check base
check predict $pure
check policy $pure
check port $pure
check flow $pure predict policy port
check conf $pure predict policy port flow
check amqp $pure predict policy port flow
check http $pure predict policy port flow
check store $pure predict policy port flow
check sidecar $pure predict policy port flow conf amqp http store

n=$((n + 1))
if grep -rn '#include "' ../include | grep -v '#include "harbinger/'; then
    echo "not ok $n - public headers need nothing private"
    failed=1
else
    echo "ok $n - public headers need nothing private"
fi

# A folder without a rule would never be checked.
n=$((n + 1))
unknown=$(ls -d */ | grep -vxE '(base|predict|policy|port|flow|conf|amqp|http|store|sidecar)/' || true)
if [ -z "$unknown" ]; then
    echo "ok $n - every folder has a rule"
else
    echo "not ok $n - every folder has a rule: $unknown"
    failed=1
fi
exit $failed
