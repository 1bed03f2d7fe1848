"""The lossless suite against a fake service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from service.bench.answers import AnswerFiles
from service.bench.lossless import LosslessRun
from service.bench.lossless_cli import Options, run
from service.bench.prompts import Prompt
from service.bench.variants import url_variants
from service.errors import ConfigError, EngineError

PROMPTS = [Prompt(f"p{number}", "x", f"text {number}") for number in range(5)]


class FakeService:
    """Greedy answers depend on the text only, sampled ones on seed too; `broken` texts differ when drafted."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.margin = 2.0

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        drafted = body["speculation"]["mode"] == "on"
        text = body["messages"][0]["content"]
        ids = [len(text), sum(map(ord, text)) % 97, body.get("seed") or 0]
        if drafted and text in self.broken:
            ids[1] = 99
        choice: dict[str, Any] = {"message": {"content": text}, "finish_reason": "stop", "response_token_ids": ids}
        if body.get("logprobs"):
            top = [{"logprob": -0.1}, {"logprob": -0.1 - self.margin}]
            choice["logprobs"] = {"content": [{"top_logprobs": top} for _ in ids]}
        answer: dict[str, Any] = {"choices": [choice] * body.get("n", 1)}
        if drafted:
            figures = {"num_draft_tokens": 4, "num_accepted_draft_tokens": 1}
            answer["metrics"] = {"speculative_decoding": figures}
        return web.json_response(answer)

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "fake"}]})


@pytest.fixture
async def fake() -> AsyncIterator[FakeService]:
    yield FakeService()


@pytest.fixture
async def url(fake: FakeService) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", fake.chat)
    app.router.add_get("/v1/models", fake.models)
    async with TestServer(app) as server:
        yield str(server.make_url(""))


def suite(folder: Path, resume: bool = False) -> LosslessRun:
    answers = AnswerFiles(folder, PROMPTS, 8, resume)
    return LosslessRun(PROMPTS, 8, answers, lambda _line: None, sampled_prompts=2, draws=32)


async def test_an_honest_service_passes(url: str, tmp_path: Path) -> None:
    checked = suite(tmp_path)
    await checked.on_service(url, url_variants())
    summary = checked.summary()
    assert checked.passed and summary["passed"]
    assert [row["name"] for row in summary["variants"]] == [variant.name for variant in url_variants()[1:]]
    assert all((row["identical"], row["excused"], row["different"]) == (5, 0, 0) for row in summary["variants"])
    assert [row["proposed"] for row in summary["variants"]] == [20, 20, 12]
    assert (summary["seeded"]["identical"], summary["distribution"]["p_value"]) == (2, 1.0)


async def test_a_changed_token_fails(fake: FakeService, url: str, tmp_path: Path) -> None:
    fake.broken = {"text 3"}
    checked = suite(tmp_path)
    await checked.on_service(url, url_variants())
    assert not checked.passed
    (found,) = checked.summary()["variants"][0]["differences"]
    assert (found["prompt"], found["position"], found["found"], found["margin"]) == ("p3", 1, 99, pytest.approx(2.0))
    # In the mixed variant the fourth prompt is asked without drafts.
    assert [row["different"] for row in checked.summary()["variants"]] == [1, 1, 0]


async def test_a_near_tie_is_excused(fake: FakeService, url: str, tmp_path: Path) -> None:
    fake.broken, fake.margin = {"text 3"}, 5e-5
    checked = suite(tmp_path)
    await checked.on_service(url, url_variants())
    assert checked.passed
    assert [row["excused"] for row in checked.summary()["variants"]] == [1, 1, 0]


async def test_answers_can_be_taken_up_again(url: str, tmp_path: Path) -> None:
    await suite(tmp_path).on_service(url, url_variants()[:1])
    assert AnswerFiles(tmp_path, PROMPTS, 8).read("plain") is None
    stored = AnswerFiles(tmp_path, PROMPTS, 8, resume=True).read("plain")
    assert stored is not None
    assert stored[0][0].margins == pytest.approx((2.0, 2.0, 2.0))
    with pytest.raises(ConfigError, match="other prompts"):
        AnswerFiles(tmp_path, PROMPTS, 9, resume=True).read("plain")


async def test_a_variant_needs_the_reference(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run it first"):
        await suite(tmp_path).on_service(url, url_variants()[1:])


async def test_the_report(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    options = Options(PROMPTS, 8, tmp_path, wanted=(), sampled=False, resume=False, say=lines.append)
    assert await run(options, url=url, pool=None, config_file=None)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary) >= {"prompts", "tokens", "variants"}
    assert set(summary["variants"][0]) >= {"name", "identical", "excused", "different"}
    assert "on, batch 4" in capsys.readouterr().out


async def test_an_unknown_variant_lists_the_known_ones(tmp_path: Path) -> None:
    options = Options(PROMPTS, 8, tmp_path, wanted=("absent",), sampled=False, resume=False, say=lambda _line: None)
    with pytest.raises(ConfigError, match="on, batch 1"):
        await run(options, url="http://127.0.0.1:1", pool=None, config_file=None)


async def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="nothing at"):
        await suite(tmp_path).on_service("http://127.0.0.1:9", url_variants())
