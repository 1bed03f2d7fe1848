"""Runs one command and ends its process group when the launcher is gone, however the launcher died.

Started as a file, with `python -I guard.py GRACE_SECONDS COMMAND...` as leader of its own process group; the
launcher holds the other end of standard input and never writes. Uses the standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time


def main(grace_s: float, command: list[str]) -> int:
    """Run `command` to its end; the exit status is its own, or 128 + signal."""
    # A handler, not SIG_IGN: the command must not inherit deafness. The group's SIGTERM reaches it directly.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_group_after_launcher, args=(grace_s,), daemon=True).start()
    status = child.wait()
    return status if status >= 0 else 128 - status


def _end_group_after_launcher(grace_s: float) -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGTERM)
    time.sleep(grace_s)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
