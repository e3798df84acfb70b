"""The application in another one, and who may call it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi import FastAPI

from loom_ia.access import Loom
from loom_ia.access.http import Caller
from loom_ia.access.http import create_app as created
from loom_ia.access.http.caller import OpenApiRefusedError, UnauthenticatedError
from loom_ia.config import LoomConfig
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool

KEYS = {
    "everything": Caller("key:everything"),
    "reads": Caller("key:reads", scopes=frozenset({"read"})),
    "runs": Caller("key:runs", scopes=frozenset({"run"}), agents=frozenset({"b"})),
    "decides": Caller("key:decides", scopes=frozenset({"approve", "read_content"})),
    "elsewhere": Caller("key:elsewhere", tenant="other"),
}


async def authenticate(headers: Mapping[str, str]) -> Caller:
    found = KEYS.get(headers.get("x-api-key", ""))
    if found is None:
        raise UnauthenticatedError
    return found


async def opened(profile: str = "dev") -> Loom:
    """Agents `a`, that asks before it acts, and `b`."""
    data = {
        "version": 1,
        "profile": profile,
        "models": [
            {"id": name, "sdk": "fake", "model": "f", "params": {"script": [{"text": "Hello."}]}}
            for name in ("A", "B")
        ],
        "agents": [
            {"name": "a", "main": {"model": "A"}, "tools": [{"python": "act"}]},
            {"name": "b", "main": {"model": "B"}},
        ],
    }
    loom = await asyncio.to_thread(Loom, LoomConfig.model_validate(data))

    @tool(side_effects="irreversible", approval="always")
    def act() -> str:
        """Act."""
        return "done"

    loom.register("act", act)
    loom.register("A", ScriptedModel({"tool_calls": [{"name": "act"}]}, "Done."))
    return loom


async def create_app(loom: Loom, **options: object) -> FastAPI:
    """Make the application off the loop: the routes are imported then."""
    return await asyncio.to_thread(created, loom, **options)


def client(app: FastAPI, key: str = "") -> httpx2.AsyncClient:
    headers = {"x-api-key": key} if key else {}
    transport = httpx2.ASGITransport(app=app)
    return httpx2.AsyncClient(transport=transport, base_url="http://test", headers=headers)


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    """The application of an open Loom, behind keys."""
    async with await opened() as loom:
        yield await create_app(loom, authenticate=authenticate)


async def test_it_serves_mounted_in_an_application_that_opens_the_loom():
    loom = await opened()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with loom:
            yield

    around = FastAPI(lifespan=lifespan)
    around.mount("/agents", await create_app(loom))
    async with around.router.lifespan_context(around), client(around) as http:
        answer = await http.post("/agents/v1/agents/b/runs", json={"message": "x"})
        assert (answer.status_code, answer.json()["text"]) == (200, "Hello.")
        missing = await http.get("/agents/v1/runs/nobody")
        assert missing.json()["code"] == "run_not_found"
        assert (await http.get("/agents/openapi.json")).status_code == 200


async def test_it_says_that_nobody_opened_the_loom():
    app = await create_app(await opened())
    async with client(app) as http:
        answer = await http.get("/v1/agents")
        assert (answer.status_code, answer.json()["code"]) == (503, "not_serving")
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200


async def test_its_own_lifespan_opens_the_loom_and_closes_it():
    loom = await opened()
    app = await create_app(loom)
    async with app.router.lifespan_context(app), client(app) as http:
        assert (await http.get("/v1/agents")).status_code == 200
    assert not loom.entered


async def test_production_needs_to_know_who_calls():
    loom = await opened("prod")
    with pytest.raises(OpenApiRefusedError):
        await create_app(loom)
    assert await create_app(loom, authenticate=authenticate)


async def test_who_does_not_say_who_asks_is_asked_to(app: FastAPI):
    for key in ("", "wrong"):
        async with client(app, key) as http:
            answer = await http.get("/v1/agents")
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            assert answer.headers["www-authenticate"] == "Bearer"
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/readyz")).json()["warnings"] == []


@pytest.mark.parametrize(
    ("key", "method", "path", "body", "status"),
    [
        ("reads", "GET", "/v1/agents", None, 200),
        ("reads", "GET", "/v1/runs", None, 200),
        ("reads", "GET", "/v1/events", None, 403),
        ("reads", "GET", "/v1/runs/r", None, 403),
        ("reads", "POST", "/v1/agents/b/runs", {"message": "x"}, 403),
        ("reads", "POST", "/v1/runs/r/cancel", None, 403),
        ("runs", "POST", "/v1/agents/b/runs", {"message": "x"}, 200),
        ("runs", "POST", "/v1/agents/a/runs", {"message": "x"}, 404),
        ("runs", "POST", "/v1/agents/b/runs", {"message": "x", "judges": "skip"}, 403),
        ("runs", "POST", "/v1/runs/r/approve", None, 403),
        ("runs", "DELETE", "/v1/sessions/r", None, 403),
        ("decides", "POST", "/v1/runs/r/reject", None, 200),
        ("everything", "DELETE", "/v1/sessions/r", None, 200),
        ("elsewhere", "GET", "/v1/runs/r", None, 404),
    ],
)
async def test_a_scope_allows_what_it_says_and_nothing_else(
    app: FastAPI, key: str, method: str, path: str, body: object, status: int
):
    await app.state.service.loom.run("a", "x", run_id="r")
    async with client(app, key) as http:
        answer = await http.request(method, path, **({} if body is None else {"json": body}))
        assert answer.status_code == status, answer.text


async def test_the_journal_keeps_the_key_of_who_decided(app: FastAPI):
    loom: Loom = app.state.service.loom
    await loom.run("a", "x", run_id="r")
    async with client(app, "decides") as http:
        await http.post("/v1/runs/r/approve", json={"on_behalf_of": "Anne"})
    (granted,) = (await loom.query(types=["approval.granted"])).events
    assert (granted.payload.by.id, granted.payload.by.channel) == ("key:decides", "rest")


async def test_a_defect_is_told_in_the_logs_and_not_to_who_asks(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def broken(*_: object, **__: object) -> None:
        message = "an inner detail"
        raise ZeroDivisionError(message)

    monkeypatch.setattr(app.state.service.loom, "runs", broken)
    async with client(app, "everything") as http:
        answer = await http.get("/v1/runs")
    assert (answer.status_code, answer.json()["code"]) == (500, "unexpected")
    assert "inner detail" not in answer.text
    assert "an inner detail" in caplog.text
