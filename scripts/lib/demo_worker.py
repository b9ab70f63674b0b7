"""demo_worker.py FD URI QUEUE: the Python example worker, which also notes when each job began and ended.

A note is one short line, so that the workers can share one pipe. It takes no part in the job's messages.
"""
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy/examples/python"))
import worker  # noqa: E402


def main(fd, uri, queue):
    plain = worker.handle

    def noted(body):
        began = time.monotonic()
        plain(body)
        os.write(int(fd), f"{json.loads(body)['job']} {began:.6f} {time.monotonic():.6f}\n".encode())

    worker.handle = noted
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the demo's, which ends us by SIGTERM
    worker.main(uri, queue)


main(*sys.argv[1:])
