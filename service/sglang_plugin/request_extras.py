"""What a request says about its own speculation: `custom_params.specserve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from service.speculation.drafter import Sampling

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req

KEY = "specserve"


def extras_of(custom_params: dict[str, Any] | None) -> Mapping[str, Any]:
    """The request's `specserve` object; empty when there is none or it is no object."""
    extras = (custom_params or {}).get(KEY)
    return extras if isinstance(extras, dict) else {}


def mode_of(custom_params: dict[str, Any] | None) -> str:
    """The request's speculation mode: `auto`, `on` or `off`; `auto` when it names none."""
    return str(extras_of(custom_params).get("mode", "auto"))


def wants_whole_cache(req: Req) -> bool:
    """Whether the request says `kv: full`: nothing of its KV cache may be dropped or left unread."""
    return extras_of(req.sampling_params.custom_params).get("kv") == "full"


def tools_of(custom_params: dict[str, Any] | None) -> tuple[Mapping[str, Any], ...]:
    """The OpenAI tools that the request may call; the HTTP server put them there (see `pass_tools`)."""
    tools = extras_of(custom_params).get("tools")
    return tuple(tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()


def pass_tools(result: dict[str, Any], request: Any, *args: Any, **kwargs: Any) -> None:
    """After hook of `ChatCompletionRequest.to_sampling_params`: let the tools reach the drafters. Mutates `result`."""
    del args, kwargs
    if not request.tools or request.tool_choice == "none":
        return
    custom = dict(result.get("custom_params") or {})
    tools = [tool.model_dump(mode="json", exclude_none=True) for tool in request.tools]
    result["custom_params"] = {**custom, KEY: {**extras_of(custom), "tools": tools}}


def sampling_of(req: Req) -> Sampling | None:
    """How the request draws; None for greedy ones, which SGLang writes as top_k = 1."""
    params = req.sampling_params
    seed = getattr(req, "specserve_seed", None)  # set by `seeds.add_seeds`, on CPU engines only
    return None if params.top_k == 1 or seed is None else Sampling(float(params.temperature), seed)


def remaining_tokens(req: Req) -> int:
    """Tokens that the request may still generate (>= 1 while it runs)."""
    return int(req.sampling_params.max_new_tokens) - len(req.output_ids)
