"""Lets SGLang judge argument lists (JSON on standard input) without starting it.

Its own parser reads them; its own start-up checks of the algorithm run on a record that is not resolved further,
so no model and no GPU are touched. Prints what was understood, and `refusal`: None or SGLang's words.
"""

from __future__ import annotations

import argparse
import json
import sys
from types import SimpleNamespace
from typing import Any

from sglang.srt.arg_groups import speculative_hook
from sglang.srt.arg_groups.overrides import resolving_view
from sglang.srt.arg_groups.validation_hook import check_pipeline_parallel_compat
from sglang.srt.environ import envs
from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative.adaptive_spec_params import adaptive_unsupported_reason
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

SHOWN = (
    *("nnodes", "node_rank", "dist_init_addr", "disaggregation_mode"),
    *("port", "served_model_name", "dtype", "max_running_requests", "tp_size", "pp_size", "attn_dp_size"),
    *("speculative_algorithm", "speculative_num_draft_tokens", "speculative_draft_model_path", "uno_lora_path"),
)
# A target with a bundled DSPARK head, so that dspark without a draft model finds one.
TARGET = SimpleNamespace(architectures=["LlamaForCausalLM"], dspark_block_size=7)


def refusal(args: argparse.Namespace) -> str | None:
    name = args.speculative_algorithm
    if name is None:
        return None
    server_args = ServerArgs.from_cli_args(args)
    server_args.attention_backend = args.attention_backend or "fa3"
    server_args.speculative_algorithm = {"NEXTN": "EAGLE"}.get(name, name)
    cfg: Any = resolving_view(server_args)
    try:
        if cfg.speculative_adaptive:
            if reason := adaptive_unsupported_reason(server_args):
                return str(reason)
            speculative_hook._init_adaptive_speculative_params(server_args)
        SpeculativeAlgorithm.from_string(cfg.speculative_algorithm).handle_server_args(server_args)
        if cfg.pp_size > 1:
            with envs.SGLANG_ENABLE_PP_SPEC.override(True):
                check_pipeline_parallel_compat(cfg)
    except (ValueError, AssertionError, NotImplementedError) as error:
        return str(error)
    return None


def main() -> None:
    load_plugins()
    speculative_hook.model_config_of = lambda _: SimpleNamespace(hf_config=TARGET)
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    answer = {}
    for name, argv in json.load(sys.stdin).items():
        args = parser.parse_args(argv)
        answer[name] = {key: getattr(args, key) for key in SHOWN} | {"refusal": refusal(args)}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


main()
