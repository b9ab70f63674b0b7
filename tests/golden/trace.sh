#!/bin/bash
# trace.sh HARBINGER: what `harbinger trace` says of small inputs, byte for byte, and with which exit code.
harbinger=$(readlink -f "$1")
# shellcheck source=tests/golden/golden.sh
. "$(dirname "$0")/golden.sh"

# A log of 400 jobs in SWF, every second one later than the one behind it; eight rows never ran,
# three are bad.
awk 'BEGIN {
    print "; Version: 2.2"
    for (i = 0; i < 400; i++) {
        user = i % 5; queue = i % 3; run = (user + 1) * 10 * (queue == 0 ? 1 : 7) + i % 4
        if (i % 50 == 49) run = -1
        submit = i * 30 - (i % 2) * 45 + 100
        if (i == 100) submit = "x"
        if (i == 200) run = -7
        if (i == 300) { print "301 9000 1"; continue }
        print i + 1, submit, 5, run, i % 7 == 0 ? 4 : 1, -1, -1, -1, -1, -1, 1, user, -1, -1, queue, -1, -1, -1
    }
}' > log.swf
gzip -n < log.swf > log.swf.gz
cat > jobs.csv << END
when;what;took;bytes;host
10.5;"resize; large";900;1000000;a
10.25;mail;35;;a
10.75;mail;40;12;b
11;mail;-1;12;b
END

echo "1..26"
h=("$harbinger" trace)
golden convert_swf 0 "${h[@]}" convert --format swf log.swf --out a.hbt --json
golden convert_swf_gzip 0 "${h[@]}" convert --format swf log.swf.gz --out b.hbt
same "a packed log gives the same trace" a.hbt b.hbt
golden convert_strict 1 "${h[@]}" convert --format swf --strict log.swf --out c.hbt
golden info_swf 0 "${h[@]}" info --format swf --key user,queue --json log.swf
golden info_serial 0 "${h[@]}" info --format swf --serial --key queue --producer user --json log.swf.gz
golden info_trace 0 "${h[@]}" info --json a.hbt
golden info_text 0 "${h[@]}" info a.hbt
golden convert_csv 0 "${h[@]}" convert --format csv --separator ';' --arrival when --key what --duration took \
    --duration-unit ms --producer host jobs.csv --out d.hbt.gz --json
golden info_csv 0 "${h[@]}" info --json d.hbt.gz
golden no_column 1 "${h[@]}" info --format csv jobs.csv
golden no_format 2 "${h[@]}" info --format xml jobs.csv
golden no_file 1 "${h[@]}" info nowhere.hbt
golden no_trace 1 "${h[@]}" info log.swf
golden wrong_option 2 "${h[@]}" info --serial a.hbt
golden wrong_unit 2 "${h[@]}" info --format csv --unit h jobs.csv
golden no_command 2 "${h[@]}" explode
golden no_kind 2 "${h[@]}" generate nothing
golden prodflow_11 0 "${h[@]}" generate prodflow --seed 11 --out p.hbt --json
golden prodflow_info 0 "${h[@]}" info --json p.hbt
golden mg1 0 "${h[@]}" generate mg1 --seed 5 --jobs 5000 --json --out m.hbt.gz
golden toy 0 "${h[@]}" generate toy --seed 5 --json --out t.hbt
head -c 1000 a.hbt > cut.hbt
golden cut_off 1 "$harbinger" trace info cut.hbt
"$harbinger" trace convert --format swf < log.swf > e.hbt 2> /dev/null
same "standard input to standard output is the same trace" a.hbt e.hbt
"$harbinger" trace generate prodflow --seed 11 > q.hbt
same "a seed gives the same bytes" p.hbt q.hbt
result "a failed conversion leaves no file" "$([ ! -e c.hbt ] || echo "c.hbt is there")"
exit "$failed"
