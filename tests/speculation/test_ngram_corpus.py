"""The tenant's corpus: shared within a tenant, bounded, and nobody else's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.speculation.drafter import DraftRequest
from service.speculation.drafters.ngram_corpus import Corpus, CorpusReader, NgramCorpus
from service.speculation.drafters.suffix import Suffix
from service.speculation.memory import DraftMemory

PASSAGE = list(range(100, 130))
texts = st.lists(st.integers(0, 5), max_size=40)


def drafter(memory: DraftMemory, tenant: str | None, text: list[int], limit: int = 4096) -> NgramCorpus:
    made = NgramCorpus.for_request(DraftRequest(tenant=tenant, memory=memory), limit=limit)
    made.observe(text)
    return made


def test_an_earlier_request_of_the_tenant_is_copied() -> None:
    memory = DraftMemory()
    drafter(memory, "a", PASSAGE)
    tree = drafter(memory, "a", PASSAGE[:6]).propose(4)
    assert tree.tokens == tuple(PASSAGE[6:10]) and tree.sources == ("ngram_corpus",) * 4


@settings(deadline=None)
@given(secret=texts, text=texts)
def test_no_tenant_learns_from_another(secret: list[int], text: list[int]) -> None:
    memory = DraftMemory()
    for owner in ("a", None):
        drafter(memory, owner, secret)
    for other in ("b", None):
        assert drafter(memory, other, text).propose(8) == drafter(DraftMemory(), other, text).propose(8)


@settings(deadline=None)
@given(text=texts)
def test_without_others_it_equals_suffix(text: list[int]) -> None:
    suffix = Suffix()
    suffix.observe(text)
    for tenant in ("a", None):
        tree = drafter(DraftMemory(), tenant, text).propose(8)
        assert (tree.tokens, tree.parents, tree.confidences) == (
            suffix.propose(8).tokens,
            suffix.propose(8).parents,
            suffix.propose(8).confidences,
        )


def test_two_requests_at_once_see_each_other() -> None:
    memory = DraftMemory()
    first, second = drafter(memory, "a", []), drafter(memory, "a", [])
    for token in PASSAGE:
        first.observe([token])
        second.observe([token] if token < 106 else [])
    assert second.propose(4).tokens == tuple(PASSAGE[6:10])


@settings(deadline=None)
@given(st.lists(texts, max_size=12))
def test_the_corpus_stays_within_its_limit(requests: list[list[int]]) -> None:
    corpus = Corpus(limit=40)
    readers = [CorpusReader(corpus) for _ in requests]
    for reader, text in zip(readers, requests, strict=True):
        reader.add(text[:20])
    for reader, text in zip(readers, requests, strict=True):
        reader.add(text[20:])
        assert len(corpus) <= 40


def test_what_is_not_said_again_is_forgotten_first() -> None:
    memory = DraftMemory()
    drafter(memory, "a", PASSAGE, limit=200)
    drafter(memory, "a", list(range(200, 230)), limit=200)
    for start in range(1000, 1200, 20):
        drafter(memory, "a", list(range(start, start + 20)), limit=200)
        drafter(memory, "a", PASSAGE, limit=200)
    assert drafter(memory, "a", PASSAGE[:6], limit=200).propose(1).tokens == (PASSAGE[6],)
    assert len(drafter(memory, "a", list(range(200, 206)), limit=200).propose(1)) == 0


def test_a_match_survives_a_turn_of_generations() -> None:
    memory = DraftMemory()
    drafter(memory, "a", PASSAGE, limit=100)
    reading = drafter(memory, "a", PASSAGE[:6], limit=100)
    drafter(memory, "a", list(range(500, 520)), limit=100)
    reading.observe([PASSAGE[6]])
    assert reading.propose(2).tokens == tuple(PASSAGE[7:9])


@pytest.mark.parametrize("options", [{"min_chance": 1.0}, {"limit": 7}])
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="ngram_corpus needs"):
        NgramCorpus.for_request(DraftRequest(), **options)
