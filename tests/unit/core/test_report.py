"""What runs consumed, from facts written by hand."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from loom_ia.core.events import Event, ModelCalled, ModelFailed, ModelResponded, Payload
from loom_ia.core.model import Message, TextBlock, Usage
from loom_ia.core.projections.report import Report, Tally, window

T0 = datetime(2026, 11, 30, 23, 59, 58, tzinfo=UTC)


def told(run: str, *payloads: Payload) -> list[Event]:
    """Events of one run, a second apart; those of one step and role share a span."""
    return [
        Event(
            id=f"{run}{n}",
            seq=n + 1,
            tenant_id="default",
            session_id="s",
            run_id=run,
            position=n + 1,
            span_id=f"{getattr(payload, 'step', 0)}.{getattr(payload, 'attempt', 1)}",
            type=payload.type,
            at=T0 + timedelta(seconds=n),
            payload=payload,
        )
        for n, payload in enumerate(payloads)
    ]


def called(step: int, role: str = "main", model: str = "M") -> ModelCalled:
    return ModelCalled(step=step, role=role, model=model)


def answered(
    step: int, role: str = "main", *, cost: str | None = "0.10", **usage: int
) -> ModelResponded:
    message = Message(role="assistant", blocks=(TextBlock(text="-"),))
    return ModelResponded(
        step=step,
        role=role,
        model="m-1",
        message=message,
        usage=Usage.model_validate(usage) if usage else None,
        cost=None if cost is None else Decimal(cost),
    )


def report(tally: Tally, *runs: list[Event]) -> Report:
    for events in runs:
        tally.take(events)
    return tally.report("default", None, None)


def test_tokens_and_exact_dollars_add_up_by_role_and_by_model():
    first = told("a", called(1), answered(1, input=10, output=2, cache_read=3, reasoning=1))
    second = told("b", called(1, "judge"), answered(1, "judge", input=5, cache_write=4))
    seen = report(Tally(), first, second)
    assert seen.runs == 2
    assert [(line.role, line.model, line.calls) for line in seen.lines] == [
        ("judge", "m-1", 1),
        ("main", "m-1", 1),
    ]
    assert seen.by_role["judge"].usage == Usage(input=5, cache_write=4)
    assert seen.by_model["m-1"].usage == Usage(
        input=15, output=2, cache_read=3, cache_write=4, reasoning=1
    )
    assert (seen.total.cost, seen.total.unpriced) == (Decimal("0.20"), 0)


def test_what_nobody_knows_is_unknown_and_never_zero():
    lost = called(3)
    events = told(
        "a",
        called(1),
        answered(1, cost=None, input=10),
        called(2),
        ModelFailed(step=2, code="model", model="m-1"),
        lost,
    )
    seen = report(Tally(), events, told("b", called(1), answered(1, input=1)))
    assert (seen.total.cost, seen.total.known_cost) == (None, Decimal("0.10"))
    assert (seen.total.calls, seen.total.unpriced, seen.total.uncounted) == (4, 3, 2)
    assert seen.by_model["M"].calls == 1  # nothing says which model would have served
    assert seen.total.usage == Usage(input=11)


def test_a_priced_call_without_a_token_costs_zero():
    total = report(Tally(), told("a", called(1), answered(1, cost="0", input=0, output=1))).total
    assert (total.cost, total.unpriced) == (Decimal(0), 0)


def test_attempts_of_one_step_are_as_many_calls():
    first, second = called(1), ModelCalled(step=1, attempt=2, model="M")
    failed = ModelFailed(step=1, attempt=1, model="m-1", code="model", cost=Decimal(0))
    events = told("a", first, failed, second, answered(1, input=1))
    events[3] = events[3].model_copy(update={"span_id": "1.2"})
    assert report(Tally(), events).total.calls == 2


def test_a_call_counts_in_the_window_of_its_stamp():
    events = told("a", called(1), answered(1, input=1), called(2), answered(2, input=20))
    days = [
        report(Tally(window("day", T0, day)), events).total.usage.input
        for day in (date(2026, 11, 30), date(2026, 12, 1), date(2026, 12, 2))
    ]
    assert days == [1, 20, 0]
    months = [report(Tally(window("month", T0, date(2026, n, 15))), events) for n in (11, 12)]
    assert [month.total.calls for month in months] == [1, 1]


def test_a_run_that_spent_nothing_in_the_window_is_not_counted():
    seen = report(Tally(window("day", T0)), told("a", called(1), answered(1, input=1)))
    other = report(Tally(window("day", T0 + timedelta(days=9))), told("a", called(1)))
    assert (seen.runs, other.runs) == (1, 0)


@pytest.mark.parametrize(
    ("period", "day", "since", "until"),
    [
        ("day", None, (2026, 11, 30), (2026, 12, 1)),
        ("month", None, (2026, 11, 1), (2026, 12, 1)),
        ("month", date(2026, 12, 31), (2026, 12, 1), (2027, 1, 1)),
        ("month", date(2024, 2, 29), (2024, 2, 1), (2024, 3, 1)),
    ],
)
def test_windows_are_calendar_days_and_months_in_utc(period, day, since, until):
    found = window(period, T0, day)
    assert (found.since, found.until) == (
        datetime(*since, tzinfo=UTC),
        datetime(*until, tzinfo=UTC),
    )
