"""A model, not a measurement: what draft methods give on an A100 and an H200, from published constants.

The equations are those of EfficientRollout (methods note 4.5), for B requests of S tokens:

    T_T = max((W + k B S) / BW, B (Cd + S Ca) / F) + cT B          a plain step
    T_D = max((W_d + k_d B S) / BW, B (Cd_d + S Ca_d) / F) + cD B  a drafting pass
    T_V = max((W + k B S) / BW, rows B (Cd + S Ca) / F) + cV B     a verify pass over `rows` tokens a request
    speedup = tokens a step / (passes T_D / T_T + T_V / T_T)
"""

from __future__ import annotations

from dataclasses import dataclass

BATCHES = (1, 8, 32, 64)


@dataclass(frozen=True, slots=True)
class Gpu:
    """Reached bandwidth in bytes/s and FLOP/s, and seconds of overhead a request and pass: plain, draft, verify."""

    name: str
    bandwidth: float
    flops: float
    plain_s: float = 39e-6
    draft_s: float = 69e-6
    verify_s: float = 152e-6


A100 = Gpu("A100", 1.617e12, 2.335e14)
"""Fitted by EfficientRollout's authors with Qwen2.5-7B: 79 % and 75 % of the data sheet of the 80 GB SXM card, 2.039e12
and 3.12e14."""

H200 = Gpu("H200", 4.8e12 * 1.617 / 2.039, 9.89e14 * 2.335 / 3.12)
"""From the data sheet (4.8 TB/s, 989 TFLOP/s dense BF16), reached to the shares that the A100 reaches, with its
overheads; nothing of it was fitted on an H200."""


@dataclass(frozen=True, slots=True)
class Network:
    """A model as the roofline sees it: bytes of weights, bytes of KV a token, FLOP a token, and a token of context."""

    name: str
    weights: float
    kv: float
    flop: float
    context_flop: float


def network(name: str, parameters: float, layers: int, hidden: int, kv_width: int, bytes_each: float = 2.0) -> Network:
    """From the dimensions: weights of `bytes_each`, KV of two bytes, 2 FLOP a parameter, 4 a layer and channel."""
    return Network(name, parameters * bytes_each, 4.0 * layers * kv_width, 2.0 * parameters, 4.0 * layers * hidden)


VICUNA_7B = network("Vicuna-7B", 6.74e9, 32, 4096, 4096)
LLAMA_8B = network("Llama-3.1-8B", 8.03e9, 32, 4096, 1024)
LLAMA_13B = network("Llama-2-13B", 13.0e9, 40, 5120, 5120)
QWEN3_8B = network("Qwen3-8B", 8.2e9, 36, 4096, 1024)
QWEN25_7B = Network("Qwen2.5-7B", 15.2e9, 26205, 2 * 7.6e9, 4.0 * 28 * 3584)

VICUNA_68M = network("Vicuna-68M", 6.8e7, 2, 768, 768)
LLAMA_1B = network("Llama-3.2-1B", 1.24e9, 16, 2048, 512)
EAGLE_7B = network("EAGLE head, 7B", 3.7e8, 1, 4096, 4096)
EAGLE_8B = network("EAGLE head, 8B", 7.5e8, 1, 4096, 1024)
MEDUSA_7B = network("Medusa heads, 7B", 7.4e8, 0, 4096, 0)
DFLASH_8B = network("block drafter, 8B", 1.0e9, 5, 4096, 1024)
SKIPPED_13B = network("Llama-2-13B without 45 % of its layers", 13.0e9 * 0.55, 22, 5120, 5120)
QWEN25_7B_W4 = Network("Qwen2.5-7B in 4 bits", 1.334 * 5.44e9, 26205, 2 * 7.6e9, 4.0 * 28 * 3584)


@dataclass(frozen=True, slots=True)
class Method:
    """One published result. `rows` verified tokens a request, root included; `passes` of the drafter a step.

    `tokens` committed a step as published, None where it was not: then they are what the model needs for `figure`, the
    published speedup at `batch`, and only the other cells are predictions. `drafter` None is retrieval: no pass.
    """

    name: str
    target: Network
    rows: int
    tokens: float | None
    figure: float | None
    source: str
    difference: str
    drafter: Network | None = None
    passes: int = 0
    draft_rows: int = 1
    batch: int = 1
    gpu: Gpu = A100


_EAGER = "eager PyTorch: launches, not bandwidth, set the time of small drafting passes"

METHODS = (
    Method("prompt_lookup (PLD)", VICUNA_7B, 11, 1.73, 1.59, "Spec-Bench leaderboard", "the fitted verify overhead"),
    Method("ngram_corpus (REST)", VICUNA_7B, 65, 1.82, 1.48, "Spec-Bench leaderboard", "retrieval itself takes time"),
    Method("draft_model (SpS)", VICUNA_7B, 6, 2.28, 1.49, "Spec-Bench leaderboard", _EAGER, VICUNA_68M, 5),
    Method("eagle", VICUNA_7B, 27, 3.61, 2.29, "Spec-Bench leaderboard", _EAGER, EAGLE_7B, 5, 8),
    Method("medusa", VICUNA_7B, 65, 2.32, 1.78, "Spec-Bench leaderboard", _EAGER, MEDUSA_7B, 1),
    Method(
        "quantized self-draft (EfficientRollout)",
        QWEN25_7B,
        6,
        4.5,
        1.24,
        "rollout latency -19.6 %",
        "a rollout runs through all batch sizes, and drafts only at the small ones",
        QWEN25_7B_W4,
        5,
        batch=32,
    ),
    Method(
        "ucb over PLD, REST, suffix, EAGLE-2 (BanditSpec)",
        LLAMA_8B,
        61,
        3.98,
        None,
        "105.7 tokens/s; EAGLE-2 98.2",
        "published beside EAGLE-2 only: 1.08x",
        EAGLE_8B,
        6,
        10,
    ),
    Method("pard", LLAMA_8B, 13, None, 3.67, "vLLM, K=12", "tokens inferred", LLAMA_1B, 1, 24),
    Method("layer_skip (SWIFT)", LLAMA_13B, 6, None, 1.45, "1.3-1.6x", "tokens inferred", SKIPPED_13B, 5),
    Method("goose", VICUNA_7B, 61, None, 2.9, "1.9-4.3x, 7B-33B", "tokens inferred from the middle"),
    Method("toolspec", LLAMA_8B, 65, None, 4.2, "up to 4.2x", "tokens inferred from the best case"),
    Method("graft on DFlash", QWEN3_8B, 61, None, 3.71, "3.40 -> 3.71x", "tokens inferred", DFLASH_8B, 1, 16),
    Method(
        "dcut on DFlash",
        QWEN3_8B,
        6,
        None,
        1.65,
        "mean of concurrency 4-64, 25-50 % of 15 verified",
        "tokens inferred at batch 16; H20, not A100",
        DFLASH_8B,
        1,
        16,
        16,
    ),
    Method("agent_blocks (AgentSpec)", QWEN3_8B, 9, None, 2.02, "up to 2.02x", "tokens inferred from the best case"),
)
"""Published rows; trees and head sizes are the methods' defaults. Lists of drafters' names are specserve's."""


def pass_s(gpu: Gpu, net: Network, batch: int, context: int, rows: int, overhead_s: float) -> float:
    """Seconds of one pass over `rows` tokens of each of `batch` requests."""
    memory = (net.weights + net.kv * batch * context) / gpu.bandwidth
    compute = rows * batch * (net.flop + net.context_flop * context) / gpu.flops
    return max(memory, compute) + overhead_s * batch


def cost_ratio(method: Method, gpu: Gpu, batch: int, context: int) -> float:
    """A speculative step in plain steps."""
    plain = pass_s(gpu, method.target, batch, context, 1, gpu.plain_s)
    verify = pass_s(gpu, method.target, batch, context, method.rows, gpu.verify_s)
    draft = 0.0
    if method.drafter is not None:
        draft = method.passes * pass_s(gpu, method.drafter, batch, context, method.draft_rows, gpu.draft_s)
    return (draft + verify) / plain


def tokens_per_step(method: Method, context: int = 1024) -> float:
    """As published, or as the published speedup needs them under this model."""
    if method.tokens is not None:
        return method.tokens
    if method.figure is None:
        raise ValueError(f"{method.name}: neither tokens a step nor a speedup is published")
    return method.figure * cost_ratio(method, method.gpu, method.batch, context)


def speedup(method: Method, gpu: Gpu, batch: int, context: int = 1024) -> float:
    """Predicted tokens per second over plain decoding."""
    return tokens_per_step(method, context) / cost_ratio(method, gpu, batch, context)


def table(context: int = 1024, gpus: tuple[Gpu, ...] = (A100, H200)) -> list[dict[str, object]]:
    """One row a method: published and modelled figures by GPU and batch size."""
    return [
        {
            "method": method.name,
            "target": method.target.name,
            "rows": method.rows,
            "tokens_per_step": round(tokens_per_step(method, context), 2),
            "tokens_published": method.tokens is not None,
            "predicted": {
                gpu.name: {str(b): round(speedup(method, gpu, b, context), 2) for b in BATCHES} for gpu in gpus
            },
            "published": method.figure,
            "published_batch": method.batch,
            "source": method.source,
            "difference": method.difference,
        }
        for method in METHODS
    ]


def markdown(context: int = 1024, gpus: tuple[Gpu, ...] = (A100, H200)) -> str:
    """The table as Markdown, labelled as a model."""
    cells = [f"{gpu.name} {batch}" for gpu in gpus for batch in BATCHES]
    head = ["method", "target", "tokens a step", *cells, "published", "conditions", "why they differ"]
    lines = [
        f"Modelled, not measured: speedup over plain decoding by batch size, {context} tokens of context a request.",
        "`*`: tokens a step inferred from the published speedup; its own cell then agrees by construction.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "|".join(["---"] * 2 + ["--:"] * (len(cells) + 2) + ["---"] * 2) + "|",
    ]
    for method in METHODS:
        mark = "" if method.tokens is not None else "*"
        figures = [f"{speedup(method, gpu, batch, context):.2f}" for gpu in gpus for batch in BATCHES]
        figure = "-" if method.figure is None else f"{method.figure:.2f} at {method.batch}"
        row = [method.name, method.target.name, f"{tokens_per_step(method, context):.2f}{mark}", *figures]
        lines.append("| " + " | ".join([*row, figure, method.source, method.difference]) + " |")
    return "\n".join(lines) + "\n"
