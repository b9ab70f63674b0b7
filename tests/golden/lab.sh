#!/bin/bash
# lab.sh HARBINGER EXPERIMENTS: what `harbinger lab run` says, byte for byte, and what is wrong with bad files.
harbinger=$(readlink -f "$1")
experiments=$(readlink -f "$2")
# shellcheck source=tests/golden/golden.sh
. "$(dirname "$0")/golden.sh"

refused() { # NAME TEXT LINE...: the file of these lines
    local name=$1 text=$2
    shift 2
    printf '%s\n' "$@" > x.yaml
    refuses "$name" 1 "$text" "$harbinger" lab run x.yaml
}

good='criteria: {A: {metric: mean, arm: predictive, change: -0.1}}'
echo "1..26"
golden lab_prodflow 0 "$harbinger" lab run "$experiments/prodflow.yaml"
cat > sweep.yaml <<'END'
name: small sweep
trace: prodflow
seeds: [3, 4]
workers: 4
history: 0.2
criteria:
  A1: {metric: mean, arm: predictive, change: -0.4}
  A2: {metric: p99, of: long, arm: predictive, max_ratio: 1.2}
  B1: {metric: mean, arm: weighted-pausing, base: predictive, change: -0.1}
gates: {A: [A1, A2], B: [B1]}
sweep: {predictor.min_samples: [5, 2000], aging_threshold: [1s, 30s], weights: [4/2/1]}
END
golden lab_sweep 0 "$harbinger" lab run sweep.yaml
cat > windows.yaml <<'END'
unit: window
workers: 4
loads: [0.5, 0.9]
windows: 4
interval: {block: 2, resamples: 100, seed: 1, confidence: 0.9}
criteria: {A: {metric: mean, of: short, arm: oracle, change: -0.1}}
END
"$harbinger" trace generate prodflow --seed 1 --out flow.trace
golden lab_json 0 "$harbinger" lab run windows.yaml flow.trace --json
"$harbinger" lab run windows.yaml flow.trace --json --threads 1 > one
result "the same bytes on one thread" "$(diff "$here/lab_json.expect" one)"
for file in "$experiments"/*.yaml; do
    "$harbinger" lab run "$file" nowhere > out 2> err
    result "$(basename "$file") can be read" "$(grep -vE 'generates its trace|nowhere: No such|^usage' err)"
done

refused "no YAML" "x.yaml:1: did not find expected node content" "a: [}"
refused "an empty file" "x.yaml: the file is empty" ""
refused "no mapping" "x.yaml:1:1: names with values are expected" "- a"
refused "an unknown entry" "x.yaml:2:1: an experiment has no such entry" "$good" "speed: 3"
refused "no criteria" "x.yaml: an experiment needs criteria" "name: x"
refused "a criterion without a bar" "x.yaml:1:12: a criterion has a metric, an arm and a bar" \
    "criteria: {A: {metric: mean, arm: fifo}}"
refused "two bars" "x.yaml:1:52: a criterion has one bar" "criteria: {A: {metric: mean, arm: fifo, change: 0, band: 1}}"
refused "an unknown metric" \
    "x.yaml:1:24: one of mean, p50, p95, p99, mean_wait, max_wait, mean_slowdown is expected" \
    "criteria: {A: {metric: meen, arm: fifo, change: 0}}"
refused "an unknown arm" "x.yaml:1:12: there is no arm 'fivo'; the nearest one is 'fifo'" \
    "criteria: {A: {metric: mean, arm: fivo, change: 0}}"
refused "an unknown class" "x.yaml: criterion A: there is no class 'export'" "unit: window" \
    "criteria: {A: {metric: mean, of: export, arm: fifo, change: 0}}"
refused "a gate of nothing known" "x.yaml:2:13: there is no such criterion above" "$good" "gates: {G: [B]}"
refused "a load that is none" "x.yaml:1:9: a number is expected" "loads: [heavy]" "$good"
refused "a load of nothing" "x.yaml:1:9: a load is above 0 and at most 10" "loads: [0]" "$good"
refused "an option that is none" \
    "x.yaml:1:22: there is no option 'min_sample'; the nearest one is 'predictor.min_samples'" "sweep: {min_sample: [3]}" "$good"
refused "seeds and windows" "x.yaml: with windows as units there is one seed" "unit: window" "seeds: [1, 2]" "$good"
refused "a file without windows" "x.yaml: a file's units are windows" "$good"
refused "a level that is none" "x.yaml:1:10: a whole number is expected, and no larger one" "map: {a: b}" "$good"
refused "an interval's option that is none" \
    "x.yaml:1:12: one of resamples, seed, confidence and block is expected" "interval: {blocks: 3}" "$good"
exit "$failed"
