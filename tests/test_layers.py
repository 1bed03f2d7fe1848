from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIGHT = ["service.cli", "service.api.serve", "service.engine.supervisor", "service.profiles.rules"]


def test_only_allowed_imports_between_layers() -> None:
    pytest.importorskip("importlinter")
    linter = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert linter.returncode == 0, linter.stdout + linter.stderr


@pytest.mark.parametrize("module", LIGHT)
def test_gateway_and_command_line_load_no_engine(module: str) -> None:
    script = f"import sys, {module}; sys.exit(bool({{'torch', 'sglang', 'transformers'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0
