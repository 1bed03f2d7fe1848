"""A typed registry of named factories, open to third parties through entry points."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from service.errors import UnknownNameError

T = TypeVar("T")
Factory = Callable[..., T]


class Registry(Generic[T]):
    """Named factories of one kind.

    Listing names runs no factory, so it imports nothing heavy: a factory imports its implementation when it is
    called, and what is registered by its path is imported when it is loaded. Third parties add names through the
    entry-point group `specserve.<kind>`; `SPECSERVE_PLUGINS` (comma-separated names, empty for none) limits which
    are seen.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._factories: dict[str, Factory[T]] = {}

    def register(self, name: str) -> Callable[[Factory[T]], Factory[T]]:
        """Decorator that adds a factory. Raises ValueError when the name is taken."""

        def add(factory: Factory[T]) -> Factory[T]:
            if name in self._factories:
                raise ValueError(f"{self.kind}: {name!r} is registered already")
            self._factories[name] = factory
            return factory

        return add

    def register_path(self, name: str, path: str) -> None:
        """Add what `module:attribute` names, imported when it is used. Raises ValueError when the name is taken."""
        module, attribute = path.split(":")
        self.register(name)(lambda: getattr(import_module(module), attribute))

    def create(self, name: str, /, **options: object) -> T:
        """Build the named thing. Raises UnknownNameError with the known names."""
        factory = self._factories.get(name)
        return self._point(name).load()(**options) if factory is None else factory(**options)

    def load(self, name: str) -> T:
        """The named thing itself: what `register_path` or the entry point of a third party names.

        Raises UnknownNameError with the known names.
        """
        factory = self._factories.get(name)
        return self._point(name).load() if factory is None else factory()

    def _point(self, name: str) -> EntryPoint:
        for point in self._points():
            if point.name == name:
                return point
        known = ", ".join(sorted(self))
        raise UnknownNameError(f"unknown {self.kind} {name!r}; known: {known}")

    def __iter__(self) -> Iterator[str]:
        yield from self._factories
        yield from (p.name for p in self._points() if p.name not in self._factories)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def _points(self) -> list[EntryPoint]:
        allowed = os.environ.get("SPECSERVE_PLUGINS")
        points = list(entry_points(group=f"specserve.{self.kind}"))
        if allowed is None:
            return points
        names = {name.strip() for name in allowed.split(",")}
        return [p for p in points if p.name in names]
