from __future__ import annotations

from pathlib import Path

from service.bench.step_cost import width_profile
from service.bench.stock import stock_command
from service.bench.variants import PLAIN, lossless_variants, url_variants
from service.bench.widths import VERIFIED, BenchWidths
from service.profiles.facts import Facts
from service.profiles.rules import check
from service.profiles.schema import Profile
from service.speculation.drafter import drafter_registry


def test_the_reference_comes_first_and_names_differ() -> None:
    for variants in (lossless_variants("/m", "/d"), url_variants()):
        names = [variant.name for variant in variants]
        assert names[0] == PLAIN
        assert len(set(names)) == len(names)


def test_every_variant_is_a_possible_profile(tmp_path: Path) -> None:
    facts = Facts(drafters=tuple(drafter_registry()))
    profiles = [variant.profile(Profile()) for variant in lossless_variants(str(tmp_path), str(tmp_path))]
    for profile in [*profiles, width_profile(Profile())]:
        assert [finding for finding in check(profile, facts) if finding.level == "error"] == []


def test_the_yardstick_runs_without_our_plugin() -> None:
    command = stock_command("/m", 1)
    assert dict(command.env)["SGLANG_PLUGINS"] == "none"
    assert "torch_native" in command.argv and "bfloat16" in command.argv


def test_widths_follow_each_other() -> None:
    drafter = BenchWidths()
    drafter.observe([7, 8, 9])
    assert [1 + len(drafter.propose(max(VERIFIED) - 1)) for _ in range(7)] == [1, 2, 4, 8, 12, 1, 2]
    assert set(drafter.propose(11).tokens) == {7}
    assert len(drafter.propose(3)) == 0
