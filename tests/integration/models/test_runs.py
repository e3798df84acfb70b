"""Whole runs against a server that counts what it is asked: failures, chains, what is kept."""

import asyncio
import importlib.util
import json
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.core.events import Event
from loom_ia.core.model import Discard, TextDelta
from loom_ia.tools import tool

_spec = importlib.util.spec_from_file_location(
    "models_conftest", Path(__file__).parent / "conftest.py"
)
_support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_support)
says, refuses, Reply = _support.says, _support.refuses, _support.Reply
APIS = ("anthropic", "chat", "responses")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))


def model(api, url, name="M", **more):
    named = {} if api == "anthropic" else {"api": api}
    sdk = "anthropic" if api == "anthropic" else "openai"
    said = {"id": name, "sdk": sdk, "model": f"m-{name}", "base_url": url, **named}
    return {**said, "retry": {"delay": 0}, **more}


class Desk:
    """A project on the disk, its tool, and what was asked of it."""

    def __init__(self, root):
        self.root, self.read = root, []

    async def open(self, *models, agent=(), **config):
        chain = {"model": models[0]["id"], "fallbacks": [one["id"] for one in models[1:]]}
        about = {"name": "a", "main": chain, "tools": [{"python": "lire"}], **dict(agent)}
        events = {"backend": "jsonl", "path": str(self.root / "data")}
        said = {"version": 1, "models": models, "agents": [about], **config}
        said["storage"] = {"events": events}
        path = self.root / "loom.yaml"
        await asyncio.to_thread(path.write_text, json.dumps(said, indent=1))
        loom = await asyncio.to_thread(Loom.from_config, path)

        @tool(side_effects="none")
        async def lire(numero: str = "") -> str:
            """Lit un devis."""
            self.read.append(numero)
            return f"devis {numero} : 1 840,00 €"

        loom.register("lire", lire)
        return loom

    @property
    def journal(self):
        return "".join(path.read_text() for path in self.root.glob("data/**/*.jsonl"))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


async def facts(loom, result, *types):
    events = await loom.events(result.run_id)
    return [event.payload for event in events if event.type in types]


# Attempts


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_a_server_is_asked_exactly_max_attempts_times(server, desk, api, attempts):
    server.replies = [refuses(529, "saturé", "overloaded_error") for _ in range(9)]
    spec = model(api, server.url, retry={"max_attempts": attempts, "delay": 0})
    async with await desk.open(spec) as loom:
        result = await loom.run("a", "Bonjour")
    assert (result.status, len(server.requests)) == ("failed", attempts)
    assert "saturé" in result.error


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "kind", "asked"),
    [
        (400, "invalid_request_error", 1),
        (401, "authentication_error", 1),
        (404, "not_found_error", 1),
        (429, "insufficient_quota", 1),
        (429, "rate_limit_error", 3),
        (500, "api_error", 3),
        (503, "?", 3),
    ],
)
async def test_only_what_may_pass_is_asked_again(server, desk, api, status, kind, asked):
    server.replies = [refuses(status, "non", kind) for _ in range(9)]
    async with await desk.open(model(api, server.url)) as loom:
        result = await loom.run("a", "Bonjour")
    assert (result.status, len(server.requests)) == ("failed", asked)
    assert result.cost == 0


async def test_a_refused_connection_is_asked_again_and_costs_nothing(desk):
    listening = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    listening.close()
    await listening.wait_closed()
    async with await desk.open(model("chat", url)) as loom:
        result = await loom.run("a", "Bonjour")
        failed = await facts(loom, result, "model.failed")
    assert ([one.attempt for one in failed], result.cost) == ([1, 2, 3], 0)


@pytest.mark.parametrize("api", APIS)
async def test_the_first_event_may_be_an_error_and_is_a_failure_like_another(server, desk, api):
    """S02 a."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    body = b"data: " + json.dumps(error).encode() + b"\n\n"
    server.replies = [Reply(body), says(api, "Bonjour.")]
    async with await desk.open(model(api, server.url)) as loom:
        result = await loom.run("a", "Bonjour")
        failed = await facts(loom, result, "model.failed")
    assert (result.text, len(server.requests)) == ("Bonjour.", 2)
    assert [one.code for one in failed] == ["model_transient"]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("how", ["error", "cut"])
async def test_a_half_answer_is_taken_back_and_never_said_again(server, desk, api, how):
    """S02 b: followers are told, the history and the next run of the session know nothing of it."""
    whole = says(api, "PARTIEL").body
    error = b'data: {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}\n\n'
    kept = whole[: whole.index(b"PARTIEL") + len(b"PARTIEL") + 40].rpartition(b"\n\n")[0] + b"\n\n"
    half = Reply(kept + error) if how == "error" else Reply(whole, cut=len(kept))
    server.replies = [half, says(api, "Bonjour."), says(api, "Encore.")]
    priced = {"input": 1, "output": 1}
    async with await desk.open(model(api, server.url, pricing=priced)) as loom:
        shown = [one async for one in loom.stream("a", "Bonjour", session="s")]
        run = next(one.run_id for one in shown if isinstance(one, Event))
        result = await loom.result(run)
        (failed,) = await facts(loom, result, "model.failed")
        await loom.run("a", "Et puis ?", session="s")
    told = [one for one in shown if isinstance(one, TextDelta | Discard)]
    kinds = [type(one) for one in told]
    assert Discard in kinds
    assert "".join(one.text for one in told[kinds.index(Discard) + 1 :]) == "Bonjour."
    assert result.text == "Bonjour."
    assert failed.cost is None  # what was announced is known, the rest is not: never zero
    assert failed.usage is None or failed.usage.estimated
    assert result.cost is None
    assert "PARTIEL" not in desk.journal
    assert "PARTIEL" not in json.dumps(server.bodies)


# Delays


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kept", ["none", "text"])
async def test_pings_keep_no_silent_call_alive(server, desk, api, kept):
    """S05: they count neither for the first token nor between two."""
    ping = b'event: ping\ndata: {"type": "ping", "choices": []}\n\n: rien\n\n'
    whole = says(api, "Bon").body
    body = whole[: whole.index(b"\n\n", whole.index(b"Bon")) + 2] if kept == "text" else b""
    server.replies = [Reply(body, ticking=ping)]
    delays = {"first_token": 30, "idle": 30, "first_token" if kept == "none" else "idle": 0.2}
    spec = model(api, server.url, timeouts=delays, retry={"max_attempts": 1})
    async with await desk.open(spec) as loom:
        result = await loom.run("a", "Bonjour")
    told = "no first token" if kept == "none" else "silent for"
    assert (result.status, told in result.error) == ("failed", True)


async def test_no_piece_extends_the_whole_delay(server, desk):
    """S05."""
    piece = says("chat", "bla").body.partition(b"\n\n")[0] + b"\n\n"
    server.replies = [Reply(b"", ticking=piece)]
    spec = model("chat", server.url, timeouts={"total": 0.3}, retry={"max_attempts": 1})
    async with await desk.open(spec) as loom:
        result = await loom.run("a", "Bonjour")
    assert "no whole answer" in result.error


# Chains


CALL = ("lire", '{"numero": "D-1"}')


@pytest.mark.parametrize("second", APIS)
async def test_another_vendor_goes_on_in_the_middle_of_a_tool_loop(server, desk, second):
    """S07."""
    server.replies = [
        says("anthropic", "Je lis.", CALL, thought="Je pèse."),
        refuses(529, "saturé", "insufficient_quota"),
        says(second, "1 840 €.", thought="Moi aussi."),
        says("anthropic", "TTC.", thought="Encore."),
    ]
    able = {"thinking": True}
    models = (
        model("anthropic", server.url, "A", capabilities=able),
        model(second, server.url, "B", capabilities=able),
    )
    async with await desk.open(*models) as loom:
        first = await loom.run("a", "Combien ?", session="s")
        switched = await facts(loom, first, "model.switched")
        await loom.run("a", "Et TTC ?", session="s")
    assert (first.text, desk.read) == ("1 840 €.", ["D-1"])
    assert [(s.left, s.model, s.code) for s in switched] == [("A", "B", "model_quota")]
    bodies = [json.dumps(body, ensure_ascii=False) for body in server.bodies]
    assert "signed-m" in bodies[1]  # A is given back its own thought in the loop
    for body in bodies[2:]:
        assert "Je pèse." not in body
        assert "signed-" not in body
        assert "Moi aussi." not in body
    assert "Je lis." in bodies[2]
    assert "D-1 : 1 840,00 €" in bodies[2]
    assert server.bodies[3]["model"] == "m-A"  # the next run begins again with the first


@pytest.mark.parametrize("api", APIS)
async def test_a_last_answer_declares_the_tools_and_forbids_them(server, desk, api):
    """S08: a call that comes all the same is not executed, and nothing more is generated."""
    server.replies = [
        says(api, "Je lis.", CALL),
        says(api, "Voilà.", ("lire", '{"numero": "D-2"}')),
    ]
    async with await desk.open(model(api, server.url), agent={"max_iterations": 1}) as loom:
        result = await loom.run("a", "Combien ?")
    assert (result.status, result.text, desk.read) == ("completed", "Voilà.", ["D-1"])
    assert len(server.requests) == 2
    last = server.bodies[1]
    assert len(last["tools"]) == 1
    assert last["tool_choice"] in ("none", {"type": "none"})


@pytest.mark.parametrize(("api", "stop"), [("anthropic", "max_tokens"), ("chat", "length")])
async def test_a_call_of_a_cut_answer_does_not_run_and_the_model_is_told(server, desk, api, stop):
    """S13 d, S01 c: the history is sent again with an object."""
    server.replies = [says(api, "", ("lire", '{"numero": "D-'), stop=stop), says(api, "Tant pis.")]
    async with await desk.open(model(api, server.url)) as loom:
        result = await loom.run("a", "Combien ?")
    assert (result.text, result.iterations, desk.read) == ("Tant pis.", 2, [])
    sent = json.dumps(server.bodies[1], ensure_ascii=False)
    assert "coupé" in sent
    assert '"input": {}' in sent or '"arguments": "{}"' in sent


@pytest.mark.parametrize("how", [(), ("Je ",), ("Je ", ("lire", '{"nu'))])
async def test_a_refusal_goes_to_another_model_and_leaves_nothing(server, desk, how):
    """S80: with its category; its tokens are billed, it is never asked again."""
    stop = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "cyber"}}
    server.replies = [
        says("anthropic", *(how or ("",)), stop=stop, model="m-A"),
        says("chat", "Bonjour."),
        says("anthropic", "Oui."),
    ]
    priced = {"input": 1_000_000, "output": 0}
    models = (
        model("anthropic", server.url, "A", pricing=priced),
        model("chat", server.url, "B", model="m", pricing=priced),
    )
    async with await desk.open(*models) as loom:
        result = await loom.run("a", "Bonjour", session="s")
        (failed,) = await facts(loom, result, "model.failed")
        await loom.run("a", "Et puis ?", session="s")
    assert (result.text, result.cost, len(server.requests)) == ("Bonjour.", 20, 3)
    assert (failed.code, "cyber" in failed.detail, failed.usage.input) == (
        "model_refused",
        True,
        10,
    )
    assert "Je " not in json.dumps(server.bodies[1:])


async def test_an_unknown_reason_keeps_the_text_and_is_flagged(server, desk):
    """S80: its calls are not executed."""
    stop = "une_nouvelle_raison"
    server.replies = [says("anthropic", "Bon.", stop=stop)]
    async with await desk.open(model("anthropic", server.url)) as loom:
        result = await loom.run("a", "Bonjour")
        (answered,) = await facts(loom, result, "model.responded")
    assert (result.text, answered.stop) == ("Bon.", "other")


async def test_a_pause_of_the_provider_goes_on_within_the_iterations(server, desk):
    """S80."""
    server.replies = [says("anthropic", "Je cherche.", stop="pause_turn"), says("anthropic", "Là.")]
    async with await desk.open(model("anthropic", server.url)) as loom:
        result = await loom.run("a", "Cherche")
    assert (result.text, result.iterations) == ("Là.", 2)


# Breaker


async def test_one_tenants_key_and_quota_set_no_model_aside(server, desk):
    """S19."""
    spec = model("chat", server.url, "A", circuit_breaker={"failures": 2, "cooldown": 3600})
    async with await desk.open(spec, model("chat", server.url, "B")) as loom:
        for status, kind in ((401, "invalid_api_key"), (429, "insufficient_quota")):
            for _ in range(3):
                server.replies = [refuses(status, "non", kind), says("chat", "Secours.")]
                assert (await loom.run("a", "Bonjour")).text == "Secours."
    assert [body["model"] for body in server.bodies] == ["m-A", "m-B"] * 6


async def test_after_the_cooldown_one_call_tries_and_the_others_go_elsewhere(server, desk):
    """S19."""
    breaker = {"failures": 1, "cooldown": 0}
    spec = model("chat", server.url, "A", circuit_breaker=breaker, retry={"max_attempts": 1})
    async with await desk.open(spec, model("chat", server.url, "B")) as loom:
        server.replies = [refuses(500), says("chat", "Secours.")]
        await loom.run("a", "Bonjour")
        server.asked.clear()
        gate = asyncio.Event()
        server.replies = [says("chat", "Guéri.", gate=gate)]
        server.replies += [says("chat", "Secours.") for _ in range(19)]
        trial = asyncio.create_task(loom.run("a", "Bonjour"))
        await server.asked.wait()
        others = await asyncio.gather(*(loom.run("a", "Bonjour") for _ in range(19)))
        gate.set()
        assert (await trial).text == "Guéri."
    assert {one.text for one in others} == {"Secours."}
    assert [body["model"] for body in server.bodies].count("m-A") == 2


# Parameters


@pytest.mark.parametrize("other", [{}, {"params": {"top_k": 3}}])
async def test_a_refused_parameter_is_told_with_its_line_and_not_sent_again(server, desk, other):
    """S82: another model is asked only when it is set up apart."""
    params = {"params": {"temperature": 0.3}}
    message = "Unsupported value: 'temperature' does not support 0.3 with this model."
    server.replies = [refuses(400, message, "invalid_request_error"), says("chat", "Bonjour.")]
    models = (
        model("chat", server.url, "A", **params),
        model("chat", server.url, "B", **{**params, **other}),
    )
    async with await desk.open(*models) as loom:
        result = await loom.run("a", "Bonjour")
        (failed,) = await facts(loom, result, "model.failed")
    text = (desk.root / "loom.yaml").read_text()
    line = text[: text.index('"temperature"')].count("\n") + 1
    assert f"loom.yaml:{line}:" in failed.detail
    assert "models[0].params.temperature" in failed.detail
    assert (failed.code, len(server.requests)) == ("model_param", 2 if other else 1)
    assert result.status == ("completed" if other else "failed")


# What is counted


@pytest.mark.parametrize("api", APIS)
async def test_a_model_that_serves_under_an_unknown_name_has_an_unknown_cost(server, desk, api):
    """S83."""
    server.replies = [says(api, "Oui.", model="m-M-2026-09-01"), says(api, "Oui.", model="autre")]
    async with await desk.open(
        model(api, server.url, pricing={"input": 100_000, "output": 0})
    ) as loom:
        assert (await loom.run("a", "Bonjour")).cost == 1
        assert (await loom.run("a", "Bonjour")).cost is None


@pytest.mark.parametrize("api", APIS)
async def test_missing_usage_is_an_estimate_that_says_so(server, desk, api):
    """S14."""
    server.replies = [says(api, "Oui.", usage=None)]
    async with await desk.open(model(api, server.url, pricing={"input": 1, "output": 1})) as loom:
        result = await loom.run("a", "Bonjour")
    assert (result.usage.estimated, result.usage.input > 0, result.cost) == (True, True, None)


# What models think


@pytest.mark.parametrize("how", ["field", "tags"])
async def test_visible_thinking_is_shown_to_nobody_and_kept_from_the_session(server, desk, how):
    """S17."""
    first = says("chat", "", CALL, thought="SECRET") if how == "field" else says(
        "chat", "<think>SECRET</think>Je lis.", CALL
    )  # fmt: skip
    server.replies = [first, says("chat", "<think>SECRET</think>\n\nOui."), says("chat", "Fin.")]
    able = {"returns_reasoning": True}
    async with await desk.open(model("chat", server.url, capabilities=able)) as loom:
        shown = [one async for one in loom.stream("a", "Combien ?", session="s")]
        run = next(one.run_id for one in shown if isinstance(one, Event))
        result = await loom.result(run)
        await loom.run("a", "Et puis ?", session="s")
    texts = "".join(one.text for one in shown if isinstance(one, TextDelta))
    assert (result.text, "SECRET" in texts) == ("Oui.", False)
    assistant = server.bodies[1]["messages"][-2]
    assert assistant["reasoning_content"] == "SECRET"  # in the loop, to who wants it
    assert "SECRET" not in json.dumps(server.bodies[2])


# Schemas


MAIL = {
    "type": "object",
    "properties": {
        "objet": {"type": "string", "minLength": 5},
        "copie": {"type": "string"},
    },
    "required": ["objet"],
}


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_is_held_to_a_derived_schema_and_judged_by_the_whole(server, desk, api):
    """S20."""
    server.replies = [
        says(api, '{"objet": "Non", "copie": null}'),
        says(api, '{"objet": "Devis 42"}'),
    ]
    able = {"native_json": True}
    agent = {"output": {"schema": MAIL}}
    async with await desk.open(model(api, server.url, capabilities=able), agent=agent) as loom:
        result = await loom.run("a", "Rédige")
        assert loom.warnings == ()
    assert (result.status, result.data) == ("completed", {"objet": "Devis 42"})
    assert len(server.requests) == 2  # the first one is too short, which the vendor cannot say
    body = server.bodies[0]
    sent = {
        "anthropic": lambda: body["output_config"]["format"]["schema"],
        "chat": lambda: body["response_format"]["json_schema"]["schema"],
        "responses": lambda: body["text"]["format"]["schema"],
    }[api]()
    assert sent["additionalProperties"] is False
    assert "minLength" not in sent["properties"]["objet"]
    copies = sent["properties"]["copie"]
    assert copies == (
        {"type": "string"}
        if api == "anthropic"
        else {"anyOf": [{"type": "string"}, {"type": "null"}]}
    )


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_null_that_stands_for_an_absent_property_is_left_out(server, desk, api):
    """S20."""
    server.replies = [says(api, '{"objet": "Devis 42", "copie": null}')]
    able = {"native_json": True}
    agent = {"output": {"schema": MAIL}}
    async with await desk.open(model(api, server.url, capabilities=able), agent=agent) as loom:
        result = await loom.run("a", "Rédige")
    assert (result.data, len(server.requests)) == ({"objet": "Devis 42"}, 1)


async def test_a_schema_that_no_vendor_takes_is_said_and_still_judged(server, desk):
    """S20."""
    free = {"type": "object", "minProperties": 2}
    server.replies = [says("chat", '{"a": 1}'), says("chat", '{"a": 1, "b": 2}')]
    able = {"native_json": True}
    agent = {"output": {"schema": free}}
    async with await desk.open(model("chat", server.url, capabilities=able), agent=agent) as loom:
        (warning,) = loom.warnings
        result = await loom.run("a", "Rédige")
    assert "is not held to the schema" in str(warning)
    assert "its properties are not named" in str(warning)
    assert result.data == {"a": 1, "b": 2}
    assert "response_format" not in server.bodies[0]


# What is kept of exchanges


@pytest.mark.parametrize("where", ["model", "telemetry"])
@pytest.mark.parametrize("api", APIS)
async def test_exchanges_are_journaled_without_keys_or_bytes(server, desk, api, where, monkeypatch):
    monkeypatch.setenv("LOOM_TEST_KEY", "cle-tres-secrete")
    echoed = says(api, "Votre clé est cle-tres-secrete.")
    server.replies = [refuses(500, "cle-tres-secrete refusée"), echoed]
    more = {"api_key_env": "LOOM_TEST_KEY", "capabilities": {"vision": True}}
    more |= {"capture": {"raw_exchanges": True}} if where == "model" else {}
    config = {"telemetry": {"capture": {"raw_exchanges": True}}} if where == "telemetry" else {}
    async with await desk.open(model(api, server.url, **more), **config) as loom:
        result = await loom.run("a", "Vois cle-tres-secrete", attachments=[PNG])
        kept = await facts(loom, result, "model.exchanged")
    assert "iVBORw0KGgo" in json.dumps(server.bodies)  # the image did leave
    assert [(one.attempt, one.status) for one in kept] == [(1, 500), (2, 200)]
    assert kept[1].request["model"] == "m-M"
    written = json.dumps([one.model_dump(mode="json") for one in kept], ensure_ascii=False)
    assert "cle-tres-secrete" not in written
    assert "iVBORw0KGgo" not in written
    assert "***" in written


async def test_nothing_is_kept_of_exchanges_unless_it_is_asked(server, desk):
    server.replies = [says("chat", "Oui.")]
    async with await desk.open(model("chat", server.url)) as loom:
        result = await loom.run("a", "Bonjour")
        assert await facts(loom, result, "model.exchanged") == []
