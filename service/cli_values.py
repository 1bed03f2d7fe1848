"""The settings' part of the Helm chart's `values.schema.json`, made from the settings, so that it cannot rot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from service.errors import ConfigError
from service.profiles.config import Config


def settings_schema() -> dict[str, Any]:
    """JSON schema of the settings tree, its references starting at `#/$defs/settings/$defs`."""
    schema = Config.model_json_schema(ref_template="#/$defs/settings/$defs/{model}")
    return {"type": "object", **_plain(schema)}


def rewrite_schema(path: Path) -> None:
    """Put the fresh settings' schema into a chart's `values.schema.json`, in place.

    Raises ConfigError when the file has no `$defs.settings`.
    """
    schema = json.loads(path.read_text(encoding="utf-8"))
    if "settings" not in schema.get("$defs", {}):
        raise ConfigError([f"{path} must hold $defs.settings"])
    schema["$defs"]["settings"] = settings_schema()
    path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(schema: Any) -> Any:
    """Without titles, which repeat the names, and defaults, which may depend on the machine."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            plain[key] = {name: _plain(part) for name, part in value.items()}
        elif key not in ("title", "default"):
            plain[key] = _plain(value)
    return plain
