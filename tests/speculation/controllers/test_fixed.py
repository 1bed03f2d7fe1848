"""The baseline does the same always."""

from __future__ import annotations

import pytest

from service.speculation.controller import Plan, RequestView, Setting, build_controller
from service.speculation.controllers.fixed import Fixed
from service.speculation.cost import CostModel

SETTING = Setting(("a", "b"), 11, CostModel())
REQUESTS = [RequestView("x", 20, 3, 100), RequestView("y", 4, 3, 100)]


def test_the_first_drafter_with_the_whole_budget() -> None:
    controller = build_controller(("fixed",), SETTING)
    assert controller.plan(REQUESTS) == controller.plan(REQUESTS) == [Plan("a", 11), Plan("a", 4)]


def test_a_named_drafter_with_a_share() -> None:
    assert Fixed(SETTING, drafter="b", share=0.5).plan(REQUESTS) == [Plan("b", 6), Plan("b", 4)]


def test_impossible_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="'c' is not among a, b"):
        Fixed(SETTING, drafter="c")
    with pytest.raises(ValueError, match="share"):
        Fixed(SETTING, share=0)
