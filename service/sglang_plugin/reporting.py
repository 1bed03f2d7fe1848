"""Hooks in SGLang's HTTP server process: true speculation figures, and choices that an abort reaches."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import BaseModel

from service.sglang_plugin.seeds import CHOICE, choice_rid
from service.sglang_plugin.trace import TRACE_KEY, decode_trace


def spec_tokens_details(meta_info: dict[str, Any]) -> Any:
    """Replaces `spec_tokens_details_from_meta_info`: the counts of `service.sglang_plugin.accounting`.

    SGLang's figures take the configured width for the proposed drafts and count accepted ones behind the end of
    the text. `spec_cap_lens_histogram` carries decode steps by proposed drafts. None: nothing was speculated.
    """
    counts = decode_trace(meta_info.get(TRACE_KEY) or ())
    if counts is None:
        return None
    steps, proposed, accepted = counts.verify_steps, counts.proposed, counts.accepted
    return details_class()(
        spec_accept_rate=accepted / proposed if proposed else 0.0,
        spec_accept_length=1 + accepted / steps if steps else 0.0,
        spec_cap_length=proposed / steps if steps else 0.0,
        spec_num_correct_drafts=accepted,
        spec_num_proposed_drafts=proposed,
        spec_verify_ct=steps,
        spec_correct_drafts_histogram=counts.accepted_histogram(),
        spec_cap_lens_histogram=counts.proposed_histogram(),
        specserve=Account(
            sources=counts.sources(), draft_s=counts.draft_s(), verify_s=counts.verify_s(), choices=counts.choices()
        ),
    )


class Account(BaseModel):
    """What SGLang's details have no field for: draft tokens by source, and seconds (None: not known).

    `choices` are drafter and draft tokens of each decode step, where the request's `custom_params.specserve.choices`
    is true.
    """

    sources: dict[str, dict[str, Any]]
    draft_s: float | None
    verify_s: float | None
    choices: list[tuple[str | None, int]] | None = None


@cache
def details_class() -> Any:
    """SGLang's details with the field `specserve`, made known to the answers that carry them.

    Pydantic writes the fields of the declared class only, so the declarations are widened and the answer classes
    built anew. Mutates SGLang's protocol module, once.
    """
    from sglang.srt.entrypoints.openai import protocol

    class Details(protocol.SpecTokensDetails):
        specserve: Account

    widened = protocol.SglExt.model_fields["spec_tokens_details"]
    widened.annotation = Details | protocol.SpecTokensDetails | list[Details | protocol.SpecTokensDetails] | None
    for model in (
        protocol.SglExt,
        protocol.CompletionResponse,
        protocol.CompletionStreamResponse,
        protocol.ChatCompletionResponse,
        protocol.ChatCompletionStreamResponse,
    ):
        model.model_rebuild(force=True)
    return Details


def numbered_child_rid(original: Callable[[Any], Any], request: Any) -> Any:
    """Around hook of `GenerateReqInput.regenerate_rid`: the choices of `n` > 1 get the ids of `choice_rid`.

    SGLang gives them unrelated ids, so that aborting the client's request stopped none of them. Mutates the request.
    """
    if not isinstance(request.rid, str) or not isinstance(request.sampling_params, dict):
        return original(request)
    # The prompts of one request share the dictionary, so the choices are counted for each prompt's id.
    counts = request.sampling_params.setdefault("specserve_children", {})
    number = counts[request.rid] = counts.get(request.rid, -1) + 1
    request.rid = choice_rid(request.rid, number)
    return request.rid


def abort_children(original: Callable[..., None], manager: Any, rid: str = "", abort_all: bool = False) -> None:
    """Around hook of `TokenizerManager.abort_request`: aborting a request aborts its prompts (`<rid>_0`, ...) and
    their choices."""
    derived = re.compile(re.escape(rid) + rf"(_\d+)?({CHOICE}\d+)?")
    children = [known for known in manager.rid_to_state if rid and known != rid and derived.fullmatch(known)]
    original(manager, rid, abort_all)
    for child in children:
        original(manager, child, False)
