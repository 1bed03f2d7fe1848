"""The ways of decoding that the lossless suite compares with plain decoding."""

from __future__ import annotations

from dataclasses import dataclass

from service.bench.client import Mode
from service.profiles.schema import Profile, Speculation

PLAIN = "plain"


@dataclass(frozen=True)
class Variant:
    """One run over all prompts: the engine's speculation, requests in flight, modes given to them in turn."""

    name: str
    speculation: Speculation
    concurrency: int = 1
    modes: tuple[Mode | None, ...] = (None,)

    def profile(self, base: Profile) -> Profile:
        """The engine's profile: target, KV cache and runtime of `base`."""
        return base.model_copy(update={"speculation": self.speculation})


def lossless_variants(target: str, truncated: str) -> tuple[Variant, ...]:
    """The plan, the reference first; `truncated` is a draft model cut out of `target`.

    Variants with equal speculation share one engine, whose caches are emptied in between.
    """
    ours = Speculation(algorithm="specserve", drafter="prompt_lookup", controllers=("fixed",))
    return (
        Variant(PLAIN, Speculation(algorithm="none")),
        Variant("specserve batch 1", ours),
        Variant("specserve batch 4", ours, concurrency=4),
        Variant("specserve batch 4, mixed on and off", ours, concurrency=4, modes=("on", "off")),
        Variant("default drafter and controllers, batch 4", Speculation(), concurrency=4),
        Variant("ngram batch 4", Speculation(algorithm="ngram"), concurrency=4),
        Variant("standalone batch 4, cut draft, topk 1", _standalone(truncated, topk=1, nodes=4), concurrency=4),
        Variant("standalone batch 4, cut draft, topk 2", _standalone(truncated, topk=2, nodes=6), concurrency=4),
        Variant("standalone batch 4, own draft", _standalone(target, topk=1, nodes=4), concurrency=4),
    )


def url_variants() -> tuple[Variant, ...]:
    """What a running service can be asked for: the mode is all that differs, its pools stay as they are."""
    unknown = Speculation()
    return (
        Variant(PLAIN, unknown, modes=("off",)),
        Variant("on, batch 1", unknown, modes=("on",)),
        Variant("on, batch 4", unknown, concurrency=4, modes=("on",)),
        Variant("batch 4, mixed on and off", unknown, concurrency=4, modes=("on", "off")),
    )


def _standalone(draft: str, *, topk: int, nodes: int) -> Speculation:
    return Speculation(algorithm="standalone", draft_model=draft, draft_tokens=nodes, topk=topk, steps=3)
