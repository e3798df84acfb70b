"""Ceilings, what reaches them, and what is given to children."""

import random
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from loom_ia.agents.budget import BudgetsSection, budget_of
from loom_ia.core.budget import (
    Budget,
    Ceiling,
    Counters,
    Spent,
    reached,
    shared,
    spent_by,
)
from loom_ia.core.events import ModelCalled, ModelResponded, RunStarted
from loom_ia.core.events.run import Principal
from loom_ia.core.model import Message, Pricing, TextBlock, Usage, user
from loom_ia.core.state import RunState

COST = Ceiling("run", "run", "cost", Decimal("0.05"))


def names(facts):
    return [(f.scope, f.limit, f.spent, f.stop) for f in facts]


def test_a_ceiling_is_reached_by_exactly_its_amount_and_not_before():
    budget = Budget((COST,))
    assert reached(budget, Spent(Decimal("0.0499999")), None) == ()
    assert names(reached(budget, Spent(Decimal("0.05")), None)) == [
        ("run", "max_cost", Decimal("0.05"), True)
    ]


def test_under_warn_each_ceiling_is_told_once_and_under_stop_the_first_is_enough():
    ceilings = (COST, Ceiling("run", "run", "tokens", Decimal(10)))
    spent = Spent(Decimal(1), 10)
    assert len(reached(Budget(ceilings), spent, None)) == 1
    warned = reached(Budget(ceilings, stop=False), spent, None)
    assert [(f.limit, f.stop) for f in warned] == [("max_cost", False), ("max_tokens", False)]
    state = RunState()
    for fact in warned:
        state = fact.evolve(state)
    assert state.exhausted is None
    assert reached(Budget(ceilings, stop=False), spent, None, told=state.warned) == ()


def test_what_others_spend_counts_once_the_counters_are_known():
    budget = Budget(
        (
            Ceiling("session", "session", "cost", Decimal(2)),
            Ceiling("tenant", "day", "cost", Decimal(3)),
            Ceiling("tenant", "month", "tokens", Decimal(100)),
        ),
        stop=False,
    )
    assert reached(budget, Spent(Decimal(9), 900), None) == ()
    counters = Counters(session=Spent(Decimal(1)), day=Spent(Decimal(3)), month=Spent(tokens=101))
    assert names(reached(budget, Spent(), counters)) == [
        ("tenant", "max_cost_per_day", Decimal(3), False),
        ("tenant", "max_tokens_per_month", Decimal(101), False),
    ]


def test_an_agent_changes_the_budgets_key_by_key():
    common = BudgetsSection.model_validate_json(
        '{"run": {"max_cost": 0.05, "max_tokens": 200000}, "session": {"max_cost": 1.0},'
        ' "tenant": {"max_cost_per_day": 10.0}, "on_exceed": "warn"}'
    )
    own = BudgetsSection.model_validate_json(
        '{"run": {"max_cost": 0.5, "max_calls": 3}, "session": {"max_cost": null}}'
    )
    budget = budget_of(common, own)
    assert {c.name: c.most for c in budget.ceilings} == {
        "run.max_cost": Decimal("0.5"),
        "run.max_tokens": Decimal(200000),
        "run.max_calls": Decimal(3),
        "tenant.max_cost_per_day": Decimal(10),
    }
    assert budget.stop is False
    stopping = BudgetsSection.model_validate_json('{"on_exceed": "stop"}')
    assert budget_of(common, stopping).stop is True
    assert budget_of(common, None).ceilings[0].most == Decimal("0.05")


amounts = st.decimals(0, 1000, places=7)


@given(
    most=amounts,
    spent=amounts,
    shares=st.lists(st.decimals(0, 1, places=3), max_size=12),
    tokens=st.integers(0, 10_000),
)
def test_shares_given_to_children_never_add_up_to_more_than_what_is_left(
    most, spent, shares, tokens
):
    budget = Budget(
        (
            Ceiling("run", "run", "cost", most),
            Ceiling("run", "run", "tokens", Decimal(tokens)),
            Ceiling("session", "session", "cost", most),
        )
    )
    held = {"cost": Decimal(0), "tokens": Decimal(0)}
    for share in shares:
        child = shared(budget, Spent(spent), share, held)
        assert [c.scope for c in child.ceilings] == ["run", "run"]
        for ceiling in child.ceilings:
            assert ceiling.most >= 0
            held[ceiling.measure] += ceiling.most
        assert held["tokens"] % 1 == 0
    assert held["cost"] <= max(most - spent, 0)
    assert held["tokens"] <= tokens


def test_a_share_of_three_tenths_taken_twice_is_three_tenths_of_what_the_first_leaves():
    budget = Budget((Ceiling("run", "run", "cost", Decimal(100)),))
    first = shared(budget, Spent(), Decimal("0.3"), {}).most("cost")
    second = shared(budget, Spent(), Decimal("0.3"), {"cost": first}).most("cost")
    assert (first, second) == (Decimal(30), Decimal(21))
    assert shared(budget, Spent(Decimal(99)), Decimal("0.3"), {}).most("cost") == Decimal("0.3")


def test_ten_thousand_random_calls_add_up_like_whole_numbers_of_the_smallest_unit():
    draw = random.Random(20261207)
    state = RunState().evolve(started=started(), step=0)
    total_units = total_tokens = 0
    for step in range(1, 10_001):
        price = Pricing(
            input=Decimal(draw.randint(0, 9_999_999)).scaleb(-6),
            output=Decimal(draw.randint(0, 99_999_999)).scaleb(-6),
            cache_read=Decimal(draw.randint(0, 999_999)).scaleb(-6),
        )
        usage = Usage(
            input=draw.randint(0, 100_000),
            output=draw.randint(0, 10_000),
            cache_read=draw.randint(0, 50_000),
        )
        assert price.cache_read is not None
        units = (
            usage.input * int(price.input.scaleb(6))
            + usage.output * int(price.output.scaleb(6))
            + usage.cache_read * int(price.cache_read.scaleb(6))
        )
        total_units += units
        total_tokens += usage.input + usage.output + usage.cache_read
        state = answered(state, step, usage, price.cost(usage))
    spent = spent_by(state)
    assert int(spent.cost.scaleb(12)) == spent.cost.scaleb(12) == total_units
    assert spent.tokens == total_tokens


def test_ten_thousand_calls_of_less_than_a_millionth_are_not_lost():
    state = RunState().evolve(started=started(), step=0, cost=Decimal(14_000))
    for step in range(1, 10_001):
        state = answered(state, step, Usage(input=1), Decimal("0.0000007"))
    assert spent_by(state).cost == Decimal("14000.007")


def started():
    return RunStarted(agent="a", message=user("?"), principal=Principal(id="t"))


def answered(state, step, usage, cost):
    state = ModelCalled(step=step, model="M").evolve(state)
    message = Message(role="assistant", blocks=(TextBlock(text=""),))
    answer = ModelResponded(step=step, message=message, usage=usage, cost=cost, stop="pause")
    return answer.evolve(state)
