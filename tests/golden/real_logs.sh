#!/bin/sh
# real_logs.sh HARBINGER: published logs have the published counts. They are not ours to pass on:
# HARBINGER_TRACES names a folder with LPC-EGEE-2004-1.2-cln.swf.gz, from the Parallel Workloads
# Archive.
set -u
export LC_ALL=C
harbinger=$1
if [ -z "${HARBINGER_TRACES:-}" ]; then
    echo "1..0 # SKIP HARBINGER_TRACES names no folder of real logs"
    exit 0
fi
log=$(find "$HARBINGER_TRACES" -name 'LPC-EGEE-2004-*-cln.swf*' 2> /dev/null | sort | head -n 1)
if [ -z "$log" ]; then
    echo "1..0 # SKIP no LPC-EGEE-2004-*-cln.swf in $HARBINGER_TRACES"
    exit 0
fi
n=0 failed=0
has() { # NAME TEXT SAID
    n=$((n + 1))
    case $3 in
    *"$2"*) echo "ok $n - $1" ;;
    *)
        echo "not ok $n - $1"
        echo "$3" | sed 's/^/# /'
        failed=1
        ;;
    esac
}
echo "1..4"
for serial in "" --serial; do
    # shellcheck disable=SC2086 # none or one word
    said=$("$harbinger" trace info --format swf $serial --key user,queue --json "$log" 2>&1)
    has "LPC-EGEE $serial has 214322 jobs" '{"jobs":214322,' "$said"
    has "LPC-EGEE $serial has 219 keys" '"keys":219,' "$said"
done
exit $failed
