"""Rules about KV caches of packed integer codes; that they are proven is a rule of `eviction`."""

from __future__ import annotations

from collections.abc import Iterator

from service.profiles.kv_methods import QUANTIZATION_FIELDS, QUANTIZED_BITS, has_window
from service.profiles.rules.finding import Case, Finding, Rule, error, warning
from service.profiles.schema import KvCache


def the_rotation_is_known(case: Case) -> Iterator[Finding]:
    """A rotation must be registered, and the settings of quantization read by somebody."""
    kv, known, usual = case.kv, case.facts.kv_rotations, KvCache()
    if known is not None and kv.rotation not in known:
        yield error("kv.rotation", f"unknown rotation {kv.rotation!r}; known: {', '.join(sorted(known))}")
    if kv.quantization == "none":
        for name in QUANTIZATION_FIELDS:
            if getattr(kv, name) != getattr(usual, name):
                yield error(
                    f"kv.{name}", f"nothing is quantized, so nobody reads {name}: remove it, or set quantization"
                )


def quantization_needs_our_attention(case: Case) -> Iterator[Finding]:
    """Only our CPU attention decodes packed rows, of requests that read everything."""
    kv = case.kv
    if kv.quantization == "none":
        return
    field = "kv.quantization"
    if not case.on_cpu:
        yield error(field, "packed codes are read on CPU engines only for now: set none, or kv.dtype fp8_e4m3")
    if case.spec.algorithm not in ("none", "specserve"):
        yield error(field, f"the drafts of {case.spec.algorithm} read plain rows: set algorithm specserve or none")
    if kv.dtype != "auto" and not has_window(kv):
        yield error("kv.dtype", "quantization decides what is stored: set auto, or quantization none")
    for other in ("eviction", "selector"):
        if getattr(kv, other) != "none":
            yield error(f"kv.{other}", f"it looks at plain keys: set kv.{other} none, or kv.quantization none")


def groups_fill_bytes(case: Case) -> Iterator[Finding]:
    """A head's dimension is cut into equal groups whose codes fill whole bytes."""
    bits, shape, kv = QUANTIZED_BITS[case.kv.quantization], case.facts.target, case.kv
    if not bits or shape is None:
        return
    group = kv.group_size or shape.head_dim
    if shape.head_dim % group or group % (8 // bits):
        yield error(
            "kv.group_size", f"heads of {shape.head_dim} channels have no such groups: set a power of two, or none"
        )
    if kv.rotation in ("hadamard", "oscar") and shape.head_dim & (shape.head_dim - 1):
        yield error(
            "kv.rotation", f"{kv.rotation} needs a power of two, and heads have {shape.head_dim} channels: set none"
        )


def oscar_has_its_calibration(case: Case) -> Iterator[Finding]:
    """`oscar` reads a file, and the other built-in rotations read none."""
    kv = case.kv
    if kv.quantization == "none":
        return
    if kv.rotation == "oscar" and kv.calibration is None:
        yield error("kv.calibration", "oscar is fitted to a model: run `specserve calibrate kv` and name its file here")
    elif kv.rotation == "oscar" and case.facts.kv_calibration_found is False:
        yield error("kv.calibration", f"there is no file {kv.calibration}: run `specserve calibrate kv` to write it")
    elif kv.rotation in ("none", "hadamard") and kv.calibration is not None:
        yield error("kv.calibration", f"rotation {kv.rotation} reads no calibration: remove it, or set rotation oscar")


def windows_are_read_alone(case: Case) -> Iterator[Finding]:
    """Rows in full precision belong to one running request, and must hold what a verify step adds."""
    kv, drafts = case.kv, case.spec.algorithm != "none"
    if kv.quantization == "none":
        return
    if not has_window(kv):
        if kv.quantization == "int2":
            yield warning(
                "kv.full_recent",
                "two bits for the newest tokens too make texts useless: set kv.full_sinks 16 and kv.full_recent 128",
            )
        return
    if kv.prefix_cache:
        yield error(
            "kv.prefix_cache",
            "a cached prefix has packed rows only, and full_sinks and full_recent belong to one request: set "
            "kv.prefix_cache false, or both 0",
        )
    least = case.spec.draft_tokens if drafts else 1
    if kv.full_recent < least:
        yield error("kv.full_recent", f"a step adds up to {least} tokens that must fit in it: set {least} or more")


RULES: tuple[Rule, ...] = (
    the_rotation_is_known,
    oscar_has_its_calibration,
    quantization_needs_our_attention,
    groups_fill_bytes,
    windows_are_read_alone,
)
