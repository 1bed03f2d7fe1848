"""SGLang's own CPU path, as it stands: the yardstick of `specserve bench engine`."""

from __future__ import annotations

import sys
from pathlib import Path

import service
from service.bench.servers import SERVED_NAME
from service.profiles.command import HOST, EngineCommand

KV_TOKENS = 8192
# PyPI's wheel of SGLang's kernels has no CPU code and does not import on a CPU; without a stand-in nothing starts.
_SHIM = Path(service.__file__).parent / "sglang_plugin" / "shim"


def stock_command(model: str, port: int) -> EngineCommand:
    """Plain decoding in bfloat16 with torch_native attention, none of our plugin's code, OpenMP as SGLang leaves it."""
    argv = [sys.executable, "-m", "sglang.launch_server", "--model-path", model, "--served-model-name", SERVED_NAME]
    argv += ["--host", HOST, "--port", str(port), "--device", "cpu", "--dtype", "bfloat16"]
    argv += ["--attention-backend", "torch_native", "--sampling-backend", "pytorch"]
    argv += ["--max-total-tokens", str(KV_TOKENS), "--disable-overlap-schedule"]
    argv += ["--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled"]
    argv += ["--sleep-on-idle", "--skip-server-warmup", "--log-level", "info", "--log-level-http", "warning"]
    env = {
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(_SHIM),
        "SGLANG_PLUGINS": "none",
        "SGLANG_USE_CPU_ENGINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
    }
    return EngineCommand(tuple(argv), tuple(sorted(env.items())))
