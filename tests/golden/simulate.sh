#!/bin/bash
# simulate.sh HARBINGER: what `harbinger simulate` says of small traces, byte for byte, and with which exit code.
harbinger=$(readlink -f "$1")
# shellcheck source=tests/golden/golden.sh
. "$(dirname "$0")/golden.sh"

refused() { # NAME CODE TEXT ARGUMENT...
    local name=$1 code=$2 text=$3
    shift 3
    refuses "$name" "$code" "$text" "$harbinger" simulate "$@"
}

# One worker. While the first job runs, a long one, two short ones and one of another kind come.
cat > jobs.csv <<'END'
key,arrival,duration
long,0.000,0.100
long,0.010,0.100
short,0.020,0.010
short,0.030,0.010
other,0.040,0.050
short,1.000,0.010
long,1.000,0.100
other,2.000,0.050
END
printf '# by hand\nshort: 0\nlong: 2\n' > map
"$harbinger" trace convert --format csv --out jobs.trace jobs.csv || exit 1
tiny=(jobs.trace --workers 1 --history 0 --windows 2 --map map)

echo "1..34"
golden simulate_table 0 "$harbinger" simulate "${tiny[@]}" --arms fifo,static,oracle,queues --load 0.5 \
    --group 'both=short,other;long=long'
golden simulate_json 0 "$harbinger" simulate "${tiny[@]}" --arms fifo,static --json --group 'both=short,other'
golden simulate_csv 0 "$harbinger" simulate "${tiny[@]}" --arms static --csv --load 0.5,0.9
golden simulate_log 0 "$harbinger" simulate "${tiny[@]}" --arms static --log /dev/stdout --csv
golden simulate_arms 0 "$harbinger" simulate --arms help
golden simulate_prodflow 0 "$harbinger" simulate --generate prodflow:11 --workers 4 \
    --arms fifo,shadow,predictive,p75,no-minimum,size-bins,aging-off,weighted,weighted-pausing,oracle,queues \
    --group 'cheap=reserve_inventory,push_notification,reindex_product,generate_invoice;export=export_report'

flow=(simulate --generate prodflow:22 --load '0.5,0.8' --arms 'fifo,predictive,random,weighted' --history 0.3 --json)
"$harbinger" "${flow[@]}" --threads 1 > one
"$harbinger" "${flow[@]}" --threads 8 > eight
same "the same bytes on one thread and on eight" one eight
"$harbinger" simulate --generate prodflow:11 --arms predictive --log from_memory > memory
"$harbinger" trace generate prodflow --seed 11 --out flow.trace.gz
"$harbinger" simulate flow.trace.gz --history 0 --arms predictive --log from_file > file
same "the same decisions from a file and from memory" from_memory from_file
result "a decision per message" "$([ "$(wc -l < from_file)" = 34957 ] || wc -l from_file)"
"$harbinger" simulate - --history 0 --arms predictive < flow.trace.gz > pipe
result "the same from standard input" "$(diff <(tail -n +2 file) <(tail -n +2 pipe))"
"$harbinger" simulate "${tiny[@]}" --arms random --csv > a
"$harbinger" simulate "${tiny[@]}" --arms random --csv --seed 7 > b
result "the seed matters to what is random" "$(cmp -s a b && echo "no difference")"

refused "no trace" 2 "either a FILE or --generate KIND:SEED"
refused "two traces" 2 "either a FILE or --generate KIND:SEED" jobs.trace --generate toy
refused "a file that is not there" 1 "none: No such file or directory" none
refused "a file that is no trace" 1 "jobs.csv: this is no trace; \`harbinger trace convert\` makes one" jobs.csv
head -c -5 jobs.trace > cut.trace
"$harbinger" simulate cut.trace > out 2> err
code=$?
result "a trace that is cut off" "$([ $code -eq 1 ] || echo "exit code $code"; grep -q "^harbinger: cut.trace: " err || cat err; cat out)"
refused "no workers" 2 "--workers: '0' is not a whole number from 1 to 1000000" "${tiny[@]}" --workers 0
refused "a load that is no number" 2 "--load: 'nan' is not a number above 0 and at most 10" "${tiny[@]}" --load nan
refused "a load of nothing" 2 "--load: '0' is not a number above 0 and at most 10" "${tiny[@]}" --load 0.5,0
refused "an empty load" 2 "--load: 1..256 numbers between commas" "${tiny[@]}" --load 0.5,
refused "an unknown arm" 2 "--arms: there is no arm 'predictve'; the nearest one is 'predictive'" \
    "${tiny[@]}" --arms fifo,predictve
refused "an unknown option of an arm" 2 \
    "--arms: arm fifo: there is no option 'min_sample'; the nearest one is 'predictor.min_samples'" \
    "${tiny[@]}" --arms fifo:min_sample=3
refused "a value that is none" 2 "--set: broker.aging_threshold: 'soon' is not a value of it" \
    "${tiny[@]}" --set aging_threshold=soon
refused "a value out of range" 1 "arm fifo: predictor: default_level must be below levels" "${tiny[@]}" --set default_level=9
refused "a map that is not there" 1 "none: No such file or directory" "${tiny[@]}" --map none
echo "short" > bad
refused "a bad map" 1 "bad:1: not of the form KEY: LEVEL" "${tiny[@]}" --map bad
refused "no map" 2 "--arms: arm static: it needs a map with at least one key" jobs.trace --arms static
refused "a share that is none" 2 "--history: '1' is not a share from 0 to 0.9" "${tiny[@]}" --history 1
refused "no windows" 2 "--windows: '0' is not a whole number from 1 to 1000" "${tiny[@]}" --windows 0
refused "a split by nothing" 2 "--split: 'keys' is neither rows nor time" "${tiny[@]}" --split keys
refused "a log of two runs" 2 "--log takes the decisions of one run: one arm, one load" "${tiny[@]}" --log log
refused "a log nowhere" 1 "/none/log: No such file or directory" "${tiny[@]}" --arms fifo --log /none/log
refused "two formats" 2 "either --json or --csv" "${tiny[@]}" --json --csv
refused "overload" 1 "arm fifo: more than 2 jobs wait after 0.02 s: the workers are overloaded" \
    "${tiny[@]}" --max-waiting 2
exit "$failed"
