"""Requests leave for whom the configuration says; what the environment holds stays there."""

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "models_conftest", Path(__file__).parent / "conftest.py"
)
_support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_support)
asked, Reply = _support.asked, _support.Reply
APIS = ("anthropic", "chat", "responses")
AMBIENT = {
    "ANTHROPIC_API_KEY": "ambient-1",
    "ANTHROPIC_AUTH_TOKEN": "ambient-2",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "ANTHROPIC_CUSTOM_HEADERS": "x-tracked: ambient-3\nauthorization: Bearer ambient-4",
    "OPENAI_API_KEY": "ambient-5",
    "OPENAI_ADMIN_KEY": "ambient-6",
    "OPENAI_BASE_URL": "http://127.0.0.1:9",
    "OPENAI_ORG_ID": "ambient-7",
    "OPENAI_PROJECT_ID": "ambient-8",
    "OPENAI_CUSTOM_HEADERS": "x-tracked: ambient-9\nauthorization: Bearer ambient-10",
}


async def sent(server, api, **more):
    server.replies = [Reply(b'{"error": {"message": "non"}}', 400)]
    with pytest.raises(Exception, match="non"):
        await asked(api, server.url, **more)
    return server.requests[-1][1]


@pytest.mark.parametrize("api", APIS)
async def test_the_key_of_the_configuration_goes_alone(server, api, monkeypatch):
    for name, value in AMBIENT.items():
        monkeypatch.setenv(name, value)
    headers = await sent(server, api, api_key_env="KEY")
    name, value = (
        ("x-api-key", "secret-0") if api == "anthropic" else ("authorization", "bearer secret-0")
    )
    assert headers[name] == value
    assert len({"x-api-key", "authorization"} & set(headers)) == 1
    assert not any("ambient" in value for value in headers.values())


@pytest.mark.parametrize("api", APIS)
async def test_a_server_without_key_is_given_none(server, api, monkeypatch):
    for name, value in AMBIENT.items():
        monkeypatch.setenv(name, value)
    headers = await sent(server, api)
    assert not {"x-api-key", "authorization", "x-tracked"} & set(headers)
    assert not any("ambient" in value for value in headers.values())
