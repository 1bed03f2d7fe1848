"""What a rule gets and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from service.profiles.algorithms import TRAITS, Traits
from service.profiles.facts import Facts
from service.profiles.schema import KvCache, Profile, Runtime, Speculation, Target

Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One fault (error) or catch (warning) of a profile; `message` says what to do."""

    level: Level
    field: str
    message: str


@dataclass(frozen=True)
class Case:
    """A profile to judge, with what is known about machine and model."""

    profile: Profile
    facts: Facts = Facts()

    @property
    def target(self) -> Target:
        """The profile's target."""
        return self.profile.target

    @property
    def spec(self) -> Speculation:
        """The profile's speculation."""
        return self.profile.speculation

    @property
    def traits(self) -> Traits:
        """The limits of the profile's algorithm."""
        return TRAITS[self.spec.algorithm]

    @property
    def kv(self) -> KvCache:
        """The profile's KV cache."""
        return self.profile.kv

    @property
    def runtime(self) -> Runtime:
        """The profile's runtime."""
        return self.profile.runtime

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the extra arguments, without values."""
        return tuple(arg.partition("=")[0] for arg in self.runtime.extra_args if arg.startswith("--"))

    @property
    def on_cpu(self) -> bool:
        """Whether the engine runs without a GPU."""
        return self.runtime.device == "cpu"


Rule = Callable[[Case], Iterator[Finding]]


def error(field: str, message: str) -> Finding:
    """The profile cannot work."""
    return Finding("error", field, message)


def warning(field: str, message: str) -> Finding:
    """The profile works, with a catch."""
    return Finding("warning", field, message)
