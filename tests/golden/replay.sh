#!/bin/bash
# replay.sh HARBINGER: what `harbinger replay` says of a small journal, and of what is none.
harbinger=$(readlink -f "$1")
# shellcheck source=tests/golden/golden.sh
. "$(dirname "$0")/golden.sh"

refused() { # NAME TEXT FILE
    refuses "$1" 1 "$2" "$harbinger" replay "$3"
}

echo "1..13"
head='time_ns\tevent\tkey\tlevel\tms\treason\n'
{
    printf '%b' "$head"
    for i in 1 2 3 4 5 6; do
        printf '%d\tlearned\tshop/mail\t-\t12.5\t-\n%d\tlearned\tshop/report\t-\t900\t-\n' "${i}000" "${i}500"
    done
    printf '7000\tjob\tshop/mail\t1\t-\tunready\n'
    printf '8000\ttimeout\tshop/mail\t-\t-\t-\n'
    printf '9000\tjob\t\t1\t-\tinvalid_key\n'
} > journal.tsv
golden replay_text 0 "$harbinger" replay journal.tsv --out again.tsv
same "the same options, the same journal" journal.tsv again.tsv
golden replay_others 0 "$harbinger" replay - --json --set predictor.min_samples=3,predictor.global_min_samples=3,predictor.boundary_refresh_every=1 < journal.tsv
refused "no file" "nowhere: No such file or directory" nowhere
: > empty
refused "an empty file" "empty: the journal is empty" empty
printf 'key,arrival\n' > table
refused "another file" "table:1: this is no journal of harbingerd (journal.path)" table
head -c -3 journal.tsv > cut.tsv
refused "a line that is cut off" "cut.tsv:16: the line is cut off" cut.tsv
printf '%bnonsense\n' "$head" > wrong
refused "a wrong line" "wrong:2: this is no line of a journal" wrong
printf '%b9\tjob\ta\t1\t-\tx\n8\tjob\ta\t1\t-\tx\n' "$head" > back
refused "a clock that went back" \
    "back:3: earlier than the line before: a daemon was started in between; replay each part by itself" back
refuses "no place for the output" 1 "none/x: No such file or directory" "$harbinger" replay journal.tsv --out none/x
refuses "a full disk" 1 "/dev/full: No space left on device" "$harbinger" replay journal.tsv --out /dev/full
refuses "an unknown option" 2 "--set: there is no option 'predictor.min_sample'; the nearest one is 'predictor.min_samples'" \
    "$harbinger" replay journal.tsv --set predictor.min_sample=3
refuses "two files" 2 "one journal, or - for standard input" "$harbinger" replay journal.tsv journal.tsv
exit "$failed"
