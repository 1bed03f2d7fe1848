"""The optional API key."""

from __future__ import annotations

from tests.doubles.fake_sglang import FakeSGLang
from tests.doubles.stack import running_stack


def test_a_key_is_asked_for_under_v1_only() -> None:
    with running_stack({"default": [FakeSGLang()]}, api_key="secret", backend_api_key="inner") as stack:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            answer = stack.chat(headers=headers)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
            assert answer.json()["error"]["param"] == "Authorization"
            assert answer.headers["www-authenticate"] == "Bearer"
        assert stack.http.get("/v1/models").status_code == 401
        assert stack.http.get("/health").status_code == 200
        assert stack.http.get("/metrics").status_code == 200
        for scheme in ("Bearer", "bearer"):
            assert stack.chat(headers={"Authorization": f"{scheme} secret"}).status_code == 200
        assert stack.fake.headers[-1]["authorization"] == "Bearer inner"
