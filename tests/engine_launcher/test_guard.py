from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from service.engine.group import members

FAKE = Path(__file__).with_name("fake_engine.py")
LAUNCHER = """
import asyncio, sys
from service.engine.process import EngineProcess
from service.profiles.command import EngineCommand

async def main():
    engine = EngineProcess(EngineCommand(tuple(sys.argv[1:]), ()), grace_s=0.3, log=lambda line: None)
    await engine.start()
    sys.stdout.write(f"{engine.pid}\\n")
    sys.stdout.flush()
    await engine.wait()

asyncio.run(main())
"""


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_killed_launcher_leaves_no_orphan(port: int, tmp_path: Path) -> None:
    command = [sys.executable, str(FAKE), str(port), str(tmp_path), "child", "deaf"]
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, *command], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    group = int(launcher.stdout.readline())
    assert wait_until(lambda: len(members(group)) == 3)
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    launcher.stdout.close()
    assert wait_until(lambda: members(group) == ())


def test_status_and_signal_of_the_command_are_kept() -> None:
    guard = Path(__file__).parents[2] / "service" / "engine" / "guard.py"

    def status(code: str) -> int:
        argv = [sys.executable, "-I", str(guard), "1", sys.executable, "-c", code]
        # An open pipe: at the end of input the guard would take the launcher for dead.
        process = subprocess.Popen(argv, stdin=subprocess.PIPE)
        code_ = process.wait()
        assert process.stdin is not None
        process.stdin.close()
        return code_

    assert status("raise SystemExit(7)") == 7
    assert status("import os; os.kill(os.getpid(), 9)") == 128 + 9
