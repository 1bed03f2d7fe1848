"""Answers of a benchmark on disk, so that a long run can be taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from service.bench.client import Completion
from service.bench.prompts import Prompt
from service.errors import ConfigError


@dataclass(frozen=True)
class AnswerFiles:
    """One file a variant in `folder`; with `resume`, files of an earlier run of the same task are believed."""

    folder: Path
    prompts: Sequence[Prompt]
    tokens: int
    resume: bool = False

    def write(self, variant: str, answers: Sequence[Completion], seconds: float) -> None:
        """Replace the variant's file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "task": self._task(),
            "seconds": seconds,
            "answers": [asdict(answer) for answer in answers],
        }
        self._path(variant).write_bytes(orjson.dumps(content))

    def read(self, variant: str, *, always: bool = False) -> tuple[list[Completion], float] | None:
        """Answers and seconds of the variant; None without a file, or without `resume` unless `always`.

        Raises ConfigError when the file answers other prompts.
        """
        path = self._path(variant)
        if not (self.resume or always) or not path.is_file():
            return None
        content = orjson.loads(path.read_bytes())
        if content["task"] != self._task():
            raise ConfigError([f"--resume: {path} answers other prompts or lengths; give another --out"])
        return [_completion(answer) for answer in content["answers"]], content["seconds"]

    def _task(self) -> dict[str, object]:
        return {"prompts": [prompt.id for prompt in self.prompts], "tokens": self.tokens}

    def _path(self, variant: str) -> Path:
        return self.folder / ("".join(c if c.isalnum() else "-" for c in variant) + ".json")


def _completion(fields: dict[str, object]) -> Completion:
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return Completion(**{**fields, **lists})  # type: ignore[arg-type]
