"""Builds what a profile names, to find settings that would stop the engine at its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from service.errors import UnknownNameError
from service.kvcache.eviction import eviction_registry
from service.kvcache.selection import selector_registry
from service.profiles.command import eviction_settings
from service.profiles.schema import KvCache, Profile, Speculation
from service.profiles.speculation_args import drafter_names
from service.speculation.accept_rule import Exempt, accept_registry
from service.speculation.controller import Setting, build_controller


def trial(profile: Profile) -> Mapping[str, str]:
    """What is wrong with the settings of controllers, accept rule, eviction policy and selector, by field.

    Only parts with settings of their own are built, so that the usual check imports neither numpy nor torch. What this
    environment lacks the packages for is left out, and so are names that are unknown or stand twice and settings of
    `strict` and `none`, of which other rules tell.
    """
    found = {}
    for field, build in _builders(profile):
        try:
            build()
        except (ImportError, UnknownNameError):
            continue
        except (TypeError, ValueError) as problem:
            found[field] = str(problem)
    return found


def _builders(profile: Profile) -> Iterator[tuple[str, Callable[[], object]]]:
    spec, kv = profile.speculation, profile.kv
    if spec.algorithm == "specserve":
        usual = Speculation()
        own = spec.controller_options or spec.controllers != usual.controllers
        if own and len(set(spec.controllers)) == len(spec.controllers):
            field = "controller_options" if spec.controller_options else "controllers"
            yield f"speculation.{field}", lambda: _controllers(spec)
        if spec.accept_options and spec.accept != "strict":
            yield (
                "speculation.accept_options",
                lambda: accept_registry().load(spec.accept).for_request(Exempt(frozenset()), **spec.accept_options),
            )
    if kv.eviction_options and kv.eviction != "none":
        yield "kv.eviction_options", lambda: _eviction(kv)
    if kv.selector_options and kv.selector != "none":
        yield "kv.selector_options", lambda: selector_registry().load(kv.selector)(**kv.selector_options)


def _controllers(spec: Speculation) -> object:
    from service.speculation.cost import CostModel

    setting = Setting(drafter_names(spec), spec.draft_tokens - 1, CostModel())
    return build_controller(spec.controllers, setting, spec.controller_options)


def _eviction(kv: KvCache) -> object:
    return eviction_registry().load(kv.eviction)(**eviction_settings(kv)["options"])
