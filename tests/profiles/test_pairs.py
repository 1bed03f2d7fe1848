"""Targets and draft models that do not fit, told from their config.json."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from service.profiles import architectures
from service.profiles.facts import Facts, ModelShape, model_shape
from service.profiles.rules import Finding, check, pairs
from service.profiles.rules.finding import Case
from service.profiles.schema import Profile
from tests.profiles.profiles import gpu, with_draft

LLAMA = "LlamaForCausalLM"
ALL_HEADS = "Step3p5ForCausalLM"


def shape(architecture: str | None, vocab: int | None = None, block: int | None = None) -> ModelShape:
    return ModelShape(layers=2, kv_heads=2, head_dim=64, architecture=architecture, vocab_size=vocab, block_size=block)


def found(of: Profile, target: ModelShape | None, draft: ModelShape | None = None) -> list[tuple[str, str]]:
    facts = Facts(target=target, draft=draft)
    findings: list[Finding] = [finding for rule in pairs.RULES for finding in rule(Case(of, facts))]
    return [(finding.level, finding.field) for finding in findings]


CASES = {
    "vocabularies": ("standalone", {}, shape(LLAMA, 10), shape(LLAMA, 11), ("error", "speculation.draft_model")),
    "same vocabulary": ("standalone", {}, shape(LLAMA, 10), shape("Qwen2ForCausalLM", 10), None),
    "eagle3": ("eagle3", {}, shape(LLAMA), shape("LlamaForCausalLMEagle3"), None),
    "eagle3 of an unknown target": ("eagle3", {}, shape("Odd"), None, ("warning", "target.model")),
    "eagle3 with an eagle draft": (
        "eagle3",
        {},
        shape(LLAMA),
        shape("LlamaForCausalLMEagle"),
        ("error", "speculation.algorithm"),
    ),
    "eagle with a model": ("eagle", {}, shape(LLAMA), shape(LLAMA), ("warning", "speculation.draft_model")),
    "gemma assistant": (
        "eagle",
        {},
        shape("Gemma4ForCausalLM"),
        shape("Gemma4AssistantForCausalLM"),
        ("error", "speculation.algorithm"),
    ),
    "frozen kv": ("frozen_kv_mtp", {}, shape("Gemma4ForCausalLM"), shape("Gemma4AssistantForCausalLM"), None),
    "dflash": ("dflash", {}, shape("Qwen3ForCausalLM"), shape("DFlashDraftModel"), None),
    "dflash of an unknown target": ("dflash", {}, shape("Qwen2ForCausalLM"), None, ("warning", "target.model")),
    "dflash with a dspark draft": (
        "dflash",
        {},
        shape("Qwen3ForCausalLM"),
        shape("Qwen3DSparkModel"),
        ("error", "speculation.algorithm"),
    ),
    "adaptive layers of heads": (
        "nextn",
        {"adaptive": True},
        shape(ALL_HEADS),
        None,
        ("error", "speculation.adaptive"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pairs(name: str) -> None:
    algorithm, options, target, draft, expected = CASES[name]
    of = gpu(with_draft(algorithm, draft_tokens=4, **options))
    assert found(of, target, draft) == ([] if expected is None else [expected])


def test_own_heads() -> None:
    own = gpu({"algorithm": "nextn", "draft_tokens": 4})
    assert found(own, shape(LLAMA)) == [("error", "speculation.draft_model")]
    assert found(own, shape("DeepseekV3ForCausalLM")) == []
    assert found(own, None) == []
    assert found(gpu({"algorithm": "nextn", "draft_tokens": 4}, pp=2), shape(ALL_HEADS)) == [("error", "runtime.pp")]
    assert found(gpu({"algorithm": "dspark", "draft_tokens": 8}), shape("DeepseekV4ForCausalLM")) == [
        ("warning", "speculation.draft_model")
    ]


@pytest.mark.parametrize(
    ("algorithm", "tokens", "block", "expected"),
    [
        ("dflash", 16, 16, []),
        ("dflash", 12, 16, ["warning"]),
        ("dflash", 12, None, []),
        ("dspark", 8, 7, []),
        ("dspark", 7, 7, ["error"]),
        ("dspark", 7, None, ["warning"]),
    ],
)
def test_blocks(algorithm: str, tokens: int, block: int | None, expected: list[str]) -> None:
    of = gpu(with_draft(algorithm, draft_tokens=tokens))
    findings = check(of, Facts(draft=shape(None, block=block)))
    assert [finding.level for finding in findings if finding.field == "speculation.draft_tokens"] == expected


def test_block_sizes_are_where_sglang_reads_them() -> None:
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 8, "vocab_size": 9}
    for config, block in (
        ({"block_size": 16}, 16),
        ({"dflash_config": {"block_size": 8}, "block_size": 16}, 8),
        ({"dspark_block_size": 7}, 7),
        ({}, None),
    ):
        known = model_shape({**sizes, **config, "architectures": ["DFlashDraftModel"]})
        assert known is not None
        assert (known.block_size, known.vocab_size, known.architecture) == (block, 9, "DFlashDraftModel")


@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="sglang is not installed")
@pytest.mark.parametrize(
    ("listed", "method"),
    [
        (architectures.SHOW_EAGLE3_LAYERS, "set_eagle3_layers_to_capture"),
        (architectures.SHOW_DFLASH_LAYERS, "set_dflash_layers_to_capture"),
        (architectures.SHOW_DSPARK_LAYERS, "set_dspark_layers_to_capture"),
    ],
)
def test_lists_agree_with_the_installed_sglang(listed: frozenset[str], method: str) -> None:
    bases, direct = _model_classes(method)

    def shows(name: str) -> bool:
        return name in direct or any(shows(base) for base in bases.get(name, ()) if base != name)

    assert {name for name in listed if not shows(name)} == set()


def _model_classes(method: str) -> tuple[dict[str, set[str]], set[str]]:
    spec = importlib.util.find_spec("sglang")
    assert spec is not None and spec.origin is not None
    bases: dict[str, set[str]] = {}
    direct: set[str] = set()
    for file in (Path(spec.origin).parent / "srt" / "models").glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(base.id for base in node.bases if isinstance(base, ast.Name))
                if any(isinstance(item, ast.FunctionDef) and item.name == method for item in node.body):
                    direct.add(node.name)
    return bases, direct
