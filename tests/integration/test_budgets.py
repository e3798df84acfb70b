"""Budgets in runs: what is reached is a fact before the next paid call, then a last answer."""

import asyncio
from decimal import Decimal

import pytest

from loom_ia.access import Loom
from loom_ia.config.errors import ConfigError
from loom_ia.core.errors import RunNotFoundError, RunQuotaError, TenantBudgetError
from loom_ia.core.model import Answer, Message, TextBlock, ToolCallBlock, Usage

ROOT = """\
version: 1
imports: [outils]
models:
  - {{id: M, sdk: fake, model: fake-1, pricing: {{input: 0, output: 1000000}}}}
storage:
  events: {{backend: {backend}{path}}}
budgets: {budgets}
agents:
  - name: a
    main: {{model: M}}
    max_iterations: 20
    tools: [{{python: noter}}]
    {agent}
"""
TOOLS = """\
from loom_ia.tools import tool

@tool(side_effects="none")
def noter(texte: str = "") -> str:
    return "ok"
"""


class Costly:
    """Calls a tool for ever, at one price an answer; the last answer is a text."""

    def __init__(self, cost=1, calls=1):
        self.cost, self.calls, self.sent, self.finals = cost, calls, 0, 0

    async def stream(self, request):
        self.sent += 1
        blocks = [ToolCallBlock(id=f"c{self.sent}_{n}", name="noter") for n in range(self.calls)]
        if request.final:
            self.finals += 1
            blocks = [TextBlock(text="voici")]
        message = Message(role="assistant", blocks=tuple(blocks))
        stop = "end" if request.final else "calls"
        yield Answer(message=message, stop=stop, usage=Usage(output=self.cost))


def loom_of(folder, model, *, budgets="{}", agent="", backend="memory"):
    path = "" if backend == "memory" else ", path: data"
    text = ROOT.format(budgets=budgets, agent=agent, backend=backend, path=path)
    (folder / "loom.yaml").write_text(text, encoding="utf-8")
    (folder / "outils.py").write_text(TOOLS, encoding="utf-8")
    loom = Loom.from_config(folder / "loom.yaml")
    loom.register("M", model)
    return loom


async def opened(folder, model, **settings):
    return await asyncio.to_thread(lambda: loom_of(folder, model, **settings))


def kinds(events):
    return [event.type for event in events if event.type.startswith(("model.", "budget."))]


async def test_a_run_that_reaches_its_budget_gives_a_last_answer_without_tools(tmp_path):
    model = Costly()
    async with await opened(tmp_path, model, budgets="{run: {max_cost: 2.5}}") as loom:
        result = await loom.run("a", "?")
        events = await loom.events(result.run_id)

    assert (result.status, result.text, result.cost) == ("completed", "voici", Decimal(4))
    assert (model.sent, model.finals) == (4, 1)
    exceeded = next(event for event in events if event.type == "budget.exceeded")
    assert exceeded.payload.model_dump(exclude={"scope"}) == {
        "limit": "max_cost",
        "ceiling": Decimal("2.5"),
        "spent": Decimal(3),
        "stop": True,
    }
    assert kinds(events)[-3:] == ["budget.exceeded", "model.called", "model.responded"]


async def test_exactly_what_a_budget_allows_leaves_nothing_to_pay_with(tmp_path):
    model = Costly()
    async with await opened(tmp_path, model, budgets="{run: {max_tokens: 2}}") as loom:
        result = await loom.run("a", "?")
    assert (model.sent, model.finals, result.cost) == (3, 1, Decimal(3))


async def test_under_warn_a_run_goes_on_and_says_it_once(tmp_path):
    model = Costly()
    budgets = "{run: {max_cost: 2.5}, on_exceed: warn}"
    async with await opened(tmp_path, model, budgets=budgets) as loom:
        result = await loom.run("a", "?")
        events = await loom.events(result.run_id)
    assert model.sent == 21  # all its turns, and the last answer that they end with
    assert [e.payload.stop for e in events if e.type == "budget.exceeded"] == [False]


async def test_an_agent_has_its_own_ceilings_key_by_key(tmp_path):
    model = Costly()
    agent = "budget: {run: {max_cost: 1}}"
    async with await opened(tmp_path, model, budgets="{run: {max_cost: 9}}", agent=agent) as loom:
        await loom.run("a", "?")
    assert model.sent == 2


async def test_calls_past_their_number_are_refused_within_a_batch(tmp_path):
    model = Costly(calls=3)
    async with await opened(tmp_path, model, budgets="{run: {max_calls: 4}}") as loom:
        result = await loom.run("a", "?")
        events = await loom.events(result.run_id)
    types = [event.type for event in events]
    assert (types.count("tool.called"), types.count("tool.refused")) == (4, 2)
    assert (model.sent, model.finals, result.status) == (3, 1, "completed")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{run: {max_cost: 0}}", "budgets.run.max_cost: 0 is too small; give more than 0"),
        ("{run: {max_costs: 1}}", "budgets.run.max_costs: unknown key; did you mean 'max_cost'?"),
        ("{tenant: {max_cost: 1}}", "unknown key; did you mean 'max_cost_per_day'?"),
        ("{on_exceed: pause}", "'pause' is not accepted; choose 'warn', 'stop'"),
        ("{run: {max_tokens: 1.5}}", "a whole number is expected, not 1.5"),
    ],
)
def test_a_wrong_budget_is_told_where_it_is(tmp_path, written, said):
    with pytest.raises(ConfigError) as caught:
        loom_of(tmp_path, Costly(), budgets=written)
    assert said in str(caught.value)
    assert "loom.yaml:7" in str(caught.value)


@pytest.mark.parametrize("backend", ["memory", "jsonl"])
async def test_the_runs_of_a_session_share_its_budget(tmp_path, backend):
    model = Costly()
    settings = {"budgets": "{session: {max_cost: 3}}", "backend": backend}
    async with await opened(tmp_path, model, **settings) as loom:
        first = await loom.run("a", "?", session="s")
        again = await loom.run("a", "?", session="s")
        other = await loom.run("a", "?", session="t")
        events = await loom.events(again.run_id)

    assert [r.status for r in (first, again, other)] == ["completed"] * 3
    assert [r.cost for r in (first, again, other)] == [Decimal(4), Decimal(1), Decimal(4)]
    exceeded = next(e.payload for e in events if e.type == "budget.exceeded")
    assert (exceeded.scope, exceeded.limit, exceeded.spent) == ("session", "max_cost", Decimal(4))


@pytest.mark.parametrize("backend", ["memory", "jsonl"])
async def test_a_run_that_its_tenant_cannot_pay_is_refused_and_writes_nothing(tmp_path, backend):
    model = Costly()
    settings = {"budgets": "{tenant: {max_cost_per_day: 3}}", "backend": backend}
    async with await opened(tmp_path, model, **settings) as loom:
        first = await loom.run("a", "?")
        with pytest.raises(TenantBudgetError) as caught:
            await loom.run("a", "?", session="s", run_id="r")
        with pytest.raises(RunNotFoundError):
            await loom.state("r")
        page = await loom.sessions()
        used = await loom.consumption("default", "day")

    assert first.cost == used.total.cost == Decimal(4)
    assert model.sent == 4
    assert [entry.session_id for entry in page.sessions] == [first.session_id]
    assert "tenant.max_cost_per_day is 3, 4 are spent and 0 reserved" in str(caught.value)
    assert 0 < caught.value.retry_after <= 86_400


async def test_a_tenant_budget_reached_meanwhile_leads_to_the_last_answer(tmp_path):
    model = Costly()
    settings = {"budgets": "{tenant: {max_tokens_per_month: 5}}"}
    async with await opened(tmp_path, model, **settings) as loom:
        results = await asyncio.gather(*(loom.run("a", str(n)) for n in range(4)))
    assert {r.status for r in results} == {"completed"}
    assert model.finals == 4
    # each run in flight passes the ceiling by at most one call, then gives its last answer
    assert sum(r.cost for r in results) <= 5 + 2 * 4


async def test_runs_at_once_reserve_what_they_may_spend(tmp_path):
    model = Costly()
    budgets = "{run: {max_cost: 2}, tenant: {max_cost_per_day: 6}}"
    async with await opened(tmp_path, model, budgets=budgets) as loom:
        found = await asyncio.gather(
            *(loom.run("a", str(n)) for n in range(20)), return_exceptions=True
        )
    refused = [one for one in found if isinstance(one, TenantBudgetError)]
    spent = sum(one.cost for one in found if not isinstance(one, BaseException))
    assert len(found) - len(refused) == 3
    assert spent == 3 * 3  # two calls, then the last answer


async def test_under_warn_nobody_is_refused(tmp_path):
    budgets = "{tenant: {max_cost_per_day: 1}, on_exceed: warn}"
    async with await opened(tmp_path, Costly(), budgets=budgets) as loom:
        await loom.run("a", "?")
        again = await loom.run("a", "?")
        events = await loom.events(again.run_id)
    assert [e.payload.limit for e in events if e.type == "budget.exceeded"] == ["max_cost_per_day"]


async def test_a_tenant_starts_so_many_runs_a_minute(tmp_path):
    async with await opened(tmp_path, Costly(), budgets="{}\nquotas: {runs_per_minute: 2}") as loom:
        await loom.run("a", "?")
        await loom.run("a", "?")
        with pytest.raises(RunQuotaError) as caught:
            await loom.run("a", "?")
    assert 1 <= caught.value.retry_after <= 60
    assert "at most 2 runs a minute" in str(caught.value)
