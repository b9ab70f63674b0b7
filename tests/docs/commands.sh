#!/bin/sh
# commands.sh ROOT: what the README tells people to run or read exists.
set -eu
cd "$1"
echo "1..2"
failed=0
missing=$(grep -oP '(?<![\w/.-])(scripts|\.ci|tests|config|deploy|docs|src|include)/[A-Za-z0-9_./-]*[A-Za-z0-9_/]' README.md |
    sort -u | while read -r path; do [ -e "$path" ] || echo "$path"; done)
if [ -z "$missing" ]; then
    echo "ok 1 - every path in README.md exists"
else
    echo "not ok 1 - README.md names what does not exist: $missing"
    failed=1
fi
closed=$(grep -oE '(scripts|\.ci)/[A-Za-z0-9_-]+' README.md | sort -u | while read -r path; do
    [ ! -f "$path" ] || [ -x "$path" ] || echo "$path"
done)
if [ -z "$closed" ]; then
    echo "ok 2 - every script in README.md can be run"
else
    echo "not ok 2 - not executable: $closed"
    failed=1
fi
exit $failed
