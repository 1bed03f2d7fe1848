"""Pages of other origins: refused by default, allowed by name."""

from __future__ import annotations

from tests.doubles.stack import running_stack

CHAT = "/v1/chat/completions"
PAGE = "https://app.example"
PREFLIGHT = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


def test_no_origin_is_allowed_by_default() -> None:
    with running_stack() as stack:
        assert stack.http.options(CHAT, headers=PREFLIGHT).status_code == 405
        assert "access-control-allow-origin" not in stack.chat(headers={"Origin": PAGE}).headers


def test_an_allowed_origin_asks_without_the_key_and_reads_our_headers() -> None:
    with running_stack(cors_origins=(PAGE,), api_key="secret") as stack:
        preflight = stack.http.options(CHAT, headers=PREFLIGHT)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == PAGE
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        answer = stack.chat(headers={"Origin": PAGE, "Authorization": "Bearer secret"}, stream=True)
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
        assert stack.chat(headers={"Origin": PAGE}).status_code == 401
        foreign = stack.http.options(CHAT, headers={**PREFLIGHT, "Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in foreign.headers
