"""The prior: means by hand, its file, and a tiny model that talks to itself."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.speculation.adjacency_table import AdjacencyTable
from service.speculation.drafter import DraftRequest
from service.speculation.drafters.adjacency import Adjacency
from service.speculation.prior import PRIOR_NAME, Prior, PriorCounts, context_key, load_prior, save_prior
from service.speculation.prior_build import SelfTalk, build_prior
from service.speculation.table_guesses import TableGuesses

Position = tuple[int, int, tuple[int, int]]
positions = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.permutations(range(4)).map(lambda ids: (ids[0], ids[1]))),
    min_size=1,
    max_size=20,
)


def counted(seen: list[Position], **settings: int) -> Prior:
    """The prior of positions whose best two tokens have 0.5 and 0.25."""
    counts = PriorCounts(**settings)
    befores, tokens, ids = (np.array(column) for column in zip(*seen, strict=True))
    counts.add(befores, tokens, ids, np.full(ids.shape, (0.5, 0.25)))
    return counts.prior()


@given(seen=positions)
def test_entries_are_means_over_all_positions_of_a_context(seen: list[Position]) -> None:
    prior = counted(seen, width=4)
    sums: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    visits: dict[int, int] = defaultdict(int)
    for before, token, ids in seen:
        for key in (context_key(token), context_key(token, before)):
            visits[key] += 1
            for next_token, probability in zip(ids, (0.5, 0.25), strict=True):
                sums[key][next_token] += probability
    assert len(prior) == len(sums)
    for key, expected in sums.items():
        entry = prior.get(key)
        assert entry is not None
        found = {token: p for token, p in zip(*entry, strict=True) if p}
        assert found == pytest.approx({token: total / visits[key] for token, total in expected.items()}, rel=1e-3)
        assert entry[1] == sorted(entry[1], reverse=True)


def test_the_contexts_met_most_are_kept() -> None:
    prior = counted([(0, 1, (2, 3)), (0, 1, (2, 3)), (2, 1, (2, 3))], width=1, contexts=2)
    assert prior.get(context_key(1)) == prior.get(context_key(1, 0)) == ([2], [0.5])
    assert prior.get(context_key(1, 2)) is None


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    prior = counted([(0, 1, (2, 3)), (5, 70_000, (70_000, 3))])
    save_prior(prior, tmp_path / "prior.safetensors")
    loaded = load_prior(tmp_path / "prior.safetensors")
    for name in ("keys", "ids", "probabilities"):
        assert getattr(loaded, name).dtype == getattr(prior, name).dtype
        assert getattr(loaded, name).tolist() == getattr(prior, name).tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["prior.safetensors"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    for text in (b"", b"no prior at all", b"\x02\x00\x00\x00\x00\x00\x00\x00{}"):
        (tmp_path / "other").write_bytes(text)
        with pytest.raises(ValueError, match="holds no prior"):
            load_prior(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        Adjacency.for_request(DraftRequest(), prior=str(tmp_path / "absent"))


def test_nothing_sampled_is_refused() -> None:
    with pytest.raises(ValueError, match="no positions"):
        PriorCounts().prior()


def test_a_prior_speaks_where_nothing_was_learnt() -> None:
    prior = counted([(7, 1, (2, 3)), (8, 1, (4, 3))], width=2)
    guesses = TableGuesses(AdjacencyTable(), prior, prior_pair_trust=0.5, prior_single_trust=1.0)
    assert guesses.after(7, 1) == pytest.approx({2: 0.25 + 0.5 * 0.25, 3: 0.125 + 0.5 * 0.25})
    drafter = Adjacency(guesses)
    drafter.observe([7, 1])
    assert set(drafter.propose(3).tokens) == {2, 3}


def test_the_prior_beside_the_weights_is_found(tmp_path: Path) -> None:
    prior = counted([(7, 1, (2, 3))], width=2)
    save_prior(prior, tmp_path / PRIOR_NAME)
    request = DraftRequest(model=str(tmp_path))
    found = TableGuesses.for_request(request, None).prior
    assert found is not None and found.keys.tolist() == prior.keys.tolist()
    assert TableGuesses.for_request(request, "none").prior is None
    assert TableGuesses.for_request(DraftRequest(model=str(tmp_path / "other")), None).prior is None
    with pytest.raises(OSError, match="missing"):
        TableGuesses.for_request(request, str(tmp_path / "missing"))


@pytest.mark.parametrize("template", [None, "{% for m in messages %}a {{ m.content }} b{% endfor %} c"])
def test_a_model_talks_to_itself(tmp_path: Path, template: str | None) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate("0abcdefg")}, unk_token="0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="0", unk_token="0")
    tokenizer.chat_template = template
    tokenizer.save_pretrained(tmp_path)
    config = transformers.LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    talk = SelfTalk(conversations=5, batch=3, question=3, answer=4, best=4, seed=1)
    prior, again = build_prior(tmp_path, talk), build_prior(tmp_path, talk)
    assert len(prior) > 8
    assert 0 < float(prior.probabilities.sum(1).max()) <= 1.001
    assert prior.keys.tolist() == again.keys.tolist() and prior.ids.tolist() == again.ids.tolist()
