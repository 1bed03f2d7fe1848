"""Runs one command and ends all its processes when it ends, or when the launcher is gone, however it died.

Started as a file, with `python -I guard.py GRACE_SECONDS COMMAND...`, it leads a process group of its own; the
launcher holds the other end of standard input and never writes. SIGTERM asks the command, and only it, to end, so
that it can end its own children in order. Uses the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02


def main(grace_s: float, command: list[str]) -> int:
    """Run `command` to its end; the exit status is its own, or 128 + signal."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    _adopt_orphans()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: child.terminate())
    launcher_is_gone = threading.Event()
    threading.Thread(target=_outlive, args=(child, grace_s, launcher_is_gone), daemon=True).start()
    status = child.wait()
    os.killpg(0, signal.SIGTERM)
    _bury_orphans(grace_s)
    if launcher_is_gone.is_set():
        os.killpg(0, signal.SIGKILL)
    return status if status >= 0 else 128 - status


def _outlive(child: subprocess.Popen[bytes], grace_s: float, launcher_is_gone: threading.Event) -> None:
    while os.read(0, 1024):
        pass
    launcher_is_gone.set()
    child.terminate()
    time.sleep(grace_s)
    os.killpg(0, signal.SIGKILL)


def _adopt_orphans() -> None:
    """Where the first process of a container does not wait for its children, theirs would stay as zombies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _bury_orphans(timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_POLL_S)
        except ChildProcessError:
            return


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
