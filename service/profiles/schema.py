"""The typed profile of a pool: what one engine process serves, and how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.settings import Section

Algorithm = Literal[
    "none",
    "specserve",
    "ngram",
    "standalone",
    "eagle",
    "eagle3",
    "nextn",
    "frozen_kv_mtp",
    "dflash",
    "dspark",
    "uno",
]
SpeculationMode = Literal["auto", "on", "off"]


class Target(Section):
    """The served model."""

    model: str = Field("smollm2-135m-instruct", description="store name, local folder, or hub name")
    context_length: int | None = Field(None, gt=0, description="tokens; none: the model's own")
    dtype: Literal["float32", "bfloat16", "float16"] = Field("float32", description="of weights and activations")
    tool_call_parser: str | None = Field(
        "auto", description="SGLang parser of tool calls; auto: the model's own; null: tool calls stay text"
    )
    trust_remote_code: bool = Field(False, description="run Python code that comes with the model")


class Speculation(Section):
    """How drafts are made and how many are verified in one step."""

    algorithm: Algorithm = Field("specserve", description="specserve: our own, controlled per request")
    drafter: str = Field("goose", description="registered drafter; algorithm `specserve` only")
    drafters: tuple[str, ...] = Field(
        (), description="drafters that controllers choose from, in place of `drafter`; `specserve` only"
    )
    drafter_options: dict[str, dict[str, str | int | float | bool]] = Field(
        {}, description="settings of drafters by their names; `specserve` only"
    )
    controllers: tuple[str, ...] = Field(
        ("roofline", "dcut", "fixed"),
        min_length=1,
        description="registered controllers, the outermost first; `specserve` only",
    )
    controller_options: dict[str, dict[str, str | int | float | bool | tuple[float, ...]]] = Field(
        {}, description="settings of controllers by their names; `specserve` only"
    )
    sharing: Literal["request", "pool"] = Field(
        "request",
        description="what drafters learn across requests: nothing, or everything in this pool; `specserve` only",
    )
    accept: str = Field(
        "strict", description="accept rule for greedy requests; all but `strict` change texts; `specserve` only"
    )
    accept_options: dict[str, str | int | float | bool] = Field(
        {}, description="settings of the accept rule; `specserve` only"
    )
    draft_model: str | None = Field(
        None, description="draft model, heads or block drafter; none for `nextn`, `dspark`: the target's own heads"
    )
    adapter: str | None = Field(None, description="LoRA that makes the target draft, folder or hub name; `uno` only")
    draft_tokens: int = Field(
        12, ge=2, le=128, description="nodes verified in one step, the last token included; `dflash`: its block size"
    )
    topk: int = Field(1, ge=1, description="branches per draft step; EAGLE family, `standalone`, `uno`")
    steps: int | None = Field(
        None, ge=1, description="draft steps; EAGLE family, `standalone`, `uno` with topk above 1"
    )
    adaptive: bool = Field(
        False, description="SGLang's own choice of steps by acceptance; `eagle`, `eagle3`, `nextn` with topk 1"
    )


class KvCache(Section):
    """The KV cache of the engine."""

    dtype: Literal["auto", "float32", "bfloat16", "fp8_e4m3", "fp8_e5m2"] = Field(
        "auto", description="auto: the target's dtype"
    )
    max_tokens: int | None = Field(
        None, gt=0, description="tokens in the pool; none: 32768 on a CPU, else SGLang decides"
    )
    quantization: Literal["none", "int8", "int4", "int2"] = Field(
        "none", description="stored bits of each channel, with scales beside them; all but `none` change texts"
    )
    rotation: str = Field("none", description="registered rotation of keys and values before `quantization`")
    calibration: str | None = Field(
        None, description="file that `specserve calibrate kv` wrote, for rotations that have one"
    )
    group_size: int | None = Field(
        None, ge=1, description="channels that share a scale under `quantization`; none: the head's whole dimension"
    )
    full_sinks: int = Field(
        0, ge=0, description="first tokens of each request in full precision (`dtype`) under `quantization`"
    )
    full_recent: int = Field(
        0, ge=0, description="newest tokens of each request in full precision (`dtype`) under `quantization`"
    )
    prefix_cache: bool = Field(True, description="share the KV cache of equal prompt beginnings")
    page_size: int = Field(1, ge=1, description="tokens in one page of the pool")
    eviction: str = Field(
        "none", description="registered policy that drops tokens of running requests; all but `none` change texts"
    )
    budget: int = Field(1024, ge=1, description="tokens that a request keeps under `eviction`")
    sinks: int = Field(4, ge=0, description="first tokens of a text that `eviction` keeps")
    window: int = Field(32, ge=1, description="newest tokens of a text that `eviction` keeps")
    eviction_interval: int = Field(32, ge=1, description="tokens above `budget` at which `eviction` chooses again")
    eviction_options: dict[str, str | int | float | bool] = Field({}, description="further settings of the policy")
    selector: str = Field(
        "none", description="registered selector of the pages that a decode step reads; all but `none` change texts"
    )
    selector_tokens: int = Field(2048, ge=3, description="tokens that a decode step reads under `selector`")
    selector_page: int = Field(16, ge=1, description="tokens in one page of `selector`")
    selector_options: dict[str, str | int | float | bool] = Field({}, description="further settings of the selector")
    quality_report: str | None = Field(
        None, description="summary.json of `specserve bench quality` for this KV cache; none: unproven"
    )
    quality_forced: str | None = Field(
        None, description="policy that is served though its quality report missed the thresholds"
    )


class Runtime(Section):
    """Where and with what limits the engine runs."""

    device: Literal["cpu", "cuda"] = Field("cpu", description="cpu: with the operators of our plugin")
    tp: int = Field(1, ge=1, description="tensor-parallel processes")
    pp: int = Field(1, ge=1, description="pipeline stages")
    nodes: int = Field(1, ge=1, description="machines of one engine, which share its processes and stages evenly")
    attention_dp: int = Field(1, ge=1, description="attention groups inside `tp` that share no requests")
    threads: int | None = Field(None, ge=1, description="CPU threads; none: all cores")
    max_running_requests: int = Field(16, ge=1, description="requests in one batch; more wait in the queue")
    chunked_prefill_tokens: int | None = Field(
        None, ge=64, description="longest piece of a prompt in one step, tokens; none: 256 on a CPU, SGLang's on a GPU"
    )
    attention_backend: str | None = Field(None, description="none: the best for the device")
    extra_args: tuple[str, ...] = Field((), description="appended to the engine's command as they stand")


class Profile(Section):
    """Target, speculation, KV cache and runtime of one pool."""

    target: Target = Target()
    speculation: Speculation = Speculation()
    kv: KvCache = KvCache()
    runtime: Runtime = Runtime()
