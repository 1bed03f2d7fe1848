"""API keys at the service: rights, reload, and that no key reaches a log or a metric."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest
import yaml

from service.gateway.admission.key_file import hash_of
from tests.doubles.stack import MODEL, running_stack

MESSAGES = [{"role": "user", "content": "Hi"}]


def write_keys(path: Path, **keys: dict[str, object]) -> Path:
    """A file with a key `sk-NAME` for each tenant."""
    entries = [
        {"tenant": name, "hash": f"sha256:{hash_of(f'sk-{name}'.encode()).hex()}", **fields}
        for name, fields in keys.items()
    ]
    path.write_text(yaml.safe_dump({"keys": entries}))
    return path


def test_keys_models_and_reload(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_keys(tmp_path / "keys.yaml", acme={}, other={"models": ["smol"]})
    with running_stack(api_keys=path) as stack:
        for key, allowed in (("sk-acme", True), ("sk-other", True), ("sk-wrong", False), ("x", False)):
            answer = stack.chat(headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == (200 if allowed else 401)
        assert stack.fake.headers[-1].get("authorization") is None
        write_keys(path, acme={})
        stack.gateway.reload()
        refused = stack.chat(headers={"Authorization": "Bearer sk-other"})
        assert refused.json()["error"]["code"] == "invalid_api_key"
        path.write_text("keys: nonsense")
        stack.gateway.reload()
        assert stack.chat(headers={"Authorization": "Bearer sk-acme"}).status_code == 200
        shown = stack.http.get("/metrics").text + "".join(capfd.readouterr())
    assert "tenant" in shown
    for name in ("acme", "other", "wrong"):
        assert f"sk-{name}" not in shown
        assert hash_of(f"sk-{name}".encode()).hex() not in shown


def test_a_model_without_a_right_is_refused_and_not_listed(tmp_path: Path) -> None:
    from dataclasses import replace

    path = write_keys(tmp_path / "keys.yaml", acme={"models": [MODEL]})
    with running_stack(api_keys=path) as stack:
        ring = stack.gateway.keyring
        assert ring is not None
        ring._by_mac = {
            mac: (digest, replace(tenant, models=frozenset({"elsewhere"})))
            for mac, (digest, tenant) in ring._by_mac.items()
        }
        client = openai.OpenAI(base_url=f"{stack.url}/v1", api_key="sk-acme", max_retries=0)
        with pytest.raises(openai.PermissionDeniedError) as refused:
            client.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert (refused.value.code, refused.value.param) == ("model_not_allowed", "model")
        assert list(client.models.list()) == []
        assert not stack.fake.bodies
