"""count.py SINCE FILE...: prints "passed failed skipped" over meson's JUnit records written since then."""
import os
import sys
import xml.etree.ElementTree as tree


def outcome(case):
    for child in case:
        if child.tag in ("failure", "error"):
            return 1
        if child.tag == "skipped":
            return 2
    return 0


def main(since, *paths):
    counts = [0, 0, 0]
    for path in paths:
        if os.path.exists(path) and os.path.getmtime(path) >= float(since):
            for case in tree.parse(path).iter("testcase"):
                counts[outcome(case)] += 1
    print(*counts)


main(*sys.argv[1:])
