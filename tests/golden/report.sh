#!/bin/bash
# report.sh HARBINGER: the page of `harbinger lab report`, and what is said of folders that are none.
harbinger=$(readlink -f "$1")
# shellcheck source=tests/golden/golden.sh
. "$(dirname "$0")/golden.sh"

refused() { # NAME TEXT ARGUMENT...
    local name=$1 text=$2
    shift 2
    refuses "$name" 1 "$text" "$harbinger" lab report "$@"
}

page() { # NAME FILE WORD...
    local name=$1
    shift
    result "$name" "$(/usr/bin/python3 "$here/check_page.py" "$@" 2>&1)"
}

echo "1..14"
cat > seeds.yaml <<'END'
name: a small <flow> & "its" sweep
trace: prodflow
seeds: [3, 4]
workers: 4
criteria:
  A1: {metric: mean, arm: predictive, change: -0.4}
  A2: {metric: p99, of: long, arm: predictive, max_ratio: 1.2}
  B1: {metric: mean, arm: weighted-pausing, base: predictive, change: -0.1}
gates: {calm: [A1, A2], quick: [B1]}
sweep: {predictor.min_samples: [5, 2000]}
END
cat > windows.yaml <<'END'
unit: window
workers: 4
loads: [0.5, 0.9]
windows: 4
interval: {resamples: 100}
criteria: {A: {metric: mean, of: short, arm: oracle, change: -0.1}}
END
"$harbinger" lab run seeds.yaml --out seeds > /dev/null || exit 1
"$harbinger" trace generate prodflow --seed 1 --out flow.trace
"$harbinger" lab run windows.yaml flow.trace --out windows > /dev/null || exit 1
result "one file per seed, and the summary" "$(diff <(printf '%s\n' runs-3.json runs-4.json summary.json) <(ls seeds))"
"$harbinger" lab report seeds
result "the page is in the folder" "$([ -s seeds/report.html ] || ls seeds)"
page "a page of seeds" seeds/report.html 'flow' predictive weighted-pausing calm quick A1 B1 'min_samples = 2000' pass fail
"$harbinger" lab report windows --out w.html
page "a page of windows and loads" w.html 'Load 0.5' 'Load 0.9' oracle flow.trace
"$harbinger" lab report seeds --out again.html
same "the same results, the same bytes" seeds/report.html again.html
refused "no folder" "nowhere: there is no such folder" nowhere
mkdir empty
refused "an empty folder" \
    "empty/summary.json: there is no such file; \`harbinger lab run --out empty\` makes it" empty
cp -r seeds broken && head -c 3000 seeds/runs-4.json > broken/runs-4.json
"$harbinger" lab report broken > out 2> err
code=$?
result "a file that is cut off" "$([ $code = 1 ] || echo "exit code $code"; grep -q '^harbinger: broken/runs-4.json: ' err || cat err out)"
cp -r seeds other && echo '{"seeds": [3], "name": "x"}' > other/summary.json
refused "results of another kind" "other: these results are of another version (KeyError: 'cells')" other
sed 's/"name": "a small [^,]*"/"name": null/' seeds/summary.json > other/summary.json
refused "a name that is none" \
    "other: these results are of another version (AttributeError: 'NoneType' object has no attribute 'replace')" other
refused "a page that cannot be written" "none/page.html: No such file or directory" seeds --out none/page.html
refuses "two folders" 2 "one folder, that lab run --out has made" "$harbinger" lab report seeds seeds
: > file
refuses "results into a file" 1 "file: Not a directory" "$harbinger" lab run seeds.yaml --out file
result "nothing is left behind" "$(ls -d -- *.part */*.part 2> /dev/null)"
exit "$failed"
