"""The fold is total, incremental and never mutates; the codec gives back what it was given."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel

from loom_ia.core.cleaning import CleanJson, CleanText, clean, clean_json
from loom_ia.core.events import Event, Foreign, Payload, ToolCalled, decode
from loom_ia.core.events.envelope import TYPES
from loom_ia.core.fold import apply, fold
from loom_ia.core.plan import Plan, ToolPlan
from loom_ia.core.planner import next_effect
from loom_ia.core.state import RunState
from loom_ia.core.vec import Ranked, Vec

GOLDEN = Path(__file__).parents[2] / "journals" / "v1" / "golden.jsonl"
T0 = datetime(2026, 9, 1, 8, tzinfo=UTC)
NAMES = st.sampled_from(["c1", "c2", "c3"])
PLAIN = st.sampled_from(["", "oui", "a-1"])
TEXTS = PLAIN | st.text(st.characters(codec=None), max_size=6)
DIGESTS = st.sampled_from(["", "oui"]).map(
    lambda text: blake2b(text.encode(), digest_size=16).hexdigest()
)
NUMBERS = st.integers(0, 5)
INSTANTS = st.integers(0, 100_000).map(lambda n: T0 + timedelta(seconds=n)) | st.datetimes(
    timezones=st.just(UTC)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
BY_NAME = {
    "call_id": NAMES,
    "id": NAMES,
    "step": NUMBERS,
    "attempt": st.integers(1, 3),
    "launch": st.integers(1, 3),
    "subject": DIGESTS,
    "check": st.sampled_from(["contract", "judge"]),
    "role": st.sampled_from(["main", "user", "assistant", "tool"]),
}
BY_TYPE = {
    str: PLAIN,
    CleanText: TEXTS,
    CleanJson: st.dictionaries(TEXTS, JSON, max_size=2),
    int: NUMBERS,
    bool: st.booleans(),
    float: st.floats(0, 1),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False)
    | st.sampled_from([Decimal("9e999999"), Decimal("0.0012")]),
    datetime: INSTANTS,
    timedelta: st.just(timedelta()),
    AwareDatetime: INSTANTS,
    NoneType: st.none(),
}
CLEANING = {get_args(kind)[1]: kind for kind in (CleanText, CleanJson)}


def of_type(kind) -> st.SearchStrategy:
    """Values of an annotation, with few enough names and numbers for facts to meet."""
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return of_type(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in {Union, UnionType}:
        return st.one_of(*map(of_type, arguments))
    if origin is tuple:
        return st.lists(of_type(arguments[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=2)
    return of_class(kind)


def of_class(kind: type[BaseModel]) -> st.SearchStrategy[BaseModel]:
    required, optional = {}, {}
    for name, field in kind.model_fields.items():
        annotation = field.annotation
        for cleaning in field.metadata:
            annotation = CLEANING.get(cleaning, annotation)
        closed = get_origin(annotation) is Literal
        strategy = BY_NAME.get(name, of_type(annotation)) if not closed else of_type(annotation)
        (required if field.is_required() else optional)[name] = strategy
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: kind(**values))


FACTS = {name: st.deferred(lambda kind=kind: of_class(kind)) for name, kind in TYPES.items()}
UNKNOWN = st.builds(Foreign, kind=TEXTS.map(clean), data=JSON.map(clean_json))


@st.composite
def written(draw, facts=st.one_of(*FACTS.values(), UNKNOWN)) -> Event:  # noqa: B008
    """Draw an event; its place is given by `placed`."""
    fact = draw(facts)
    return Event(
        id=f"e-{draw(NUMBERS)}",
        seq=1,
        tenant_id="t",
        session_id="s",
        run_id="r",
        position=1,
        span_id=draw(PLAIN),
        type=fact.type or "later.fact",
        status=fact.outcome,
        at=draw(INSTANTS),
        epoch=draw(st.integers(0, 3)),
        skippable=draw(st.booleans()),
        payload=fact,
    )


def placed(events: list[Event]) -> list[Event]:
    return [event.model_copy(update={"position": n, "seq": n}) for n, event in enumerate(events, 1)]


STARTED = written(FACTS["run.started"])
TALK = st.one_of(
    written(FACTS["model.called"]),
    written(FACTS["model.responded"]),
    written(FACTS["step.opened"]),
    *(written(FACTS[name]) for name in TYPES if name.startswith(("tool.", "approval."))),
)
JOURNALS = st.one_of(
    st.lists(written(), max_size=10).map(placed),
    st.tuples(STARTED, st.lists(TALK | written(), max_size=10)).map(
        lambda parts: placed([parts[0], *parts[1]])
    ),
)
PLAN = Plan(tools={"oui": ToolPlan(side_effects="none")})


@given(events=JOURNALS)
def test_the_fold_takes_any_facts_in_any_order_and_counts_each(events):
    state = fold(events)
    assert state.position == len(events)
    assert state.ignored <= state.position
    next_effect(state, PLAN, T0)
    assert state.status


@given(events=JOURNALS, cut=st.integers(0, 10))
def test_a_fold_goes_on_from_any_prefix(events, cut):
    assert fold(events) == fold(events[cut:], fold(events[:cut]))


@given(events=JOURNALS, others=st.lists(TALK, max_size=4), cut=st.integers(0, 10))
def test_a_state_is_never_changed_by_later_events(events, others, cut):
    head = fold(events[:cut])
    seen = repr(head)
    fold(events[cut:], head)
    fold(others, head)
    assert repr(head) == seen
    assert fold(events[:cut]) == head


@given(events=JOURNALS)
def test_what_cannot_apply_counts_and_changes_nothing_else(events):
    state = RunState()
    for event in events:
        after = apply(state, event)
        assert after.position == state.position + 1
        if after.ignored > state.ignored:
            kept = {"position": after.position, "ignored": after.ignored, "at": after.at}
            assert after == state.evolve(**kept)
        state = after


ENDED = st.tuples(
    STARTED,
    st.one_of(*(written(FACTS[f"run.{end}"]) for end in ("completed", "failed", "cancelled"))),
    st.lists(written(), max_size=6),
).map(lambda parts: placed([*parts[:2], *parts[2]]))


@given(events=ENDED)
def test_nothing_reopens_an_ended_run_but_its_resumption(events):
    state = RunState()
    for event in events:
        after = apply(state, event)
        payload = event.payload
        if state.ending is not None and payload.type != "run.resumed":
            assert after.ending == state.ending
            if not payload.after_end and not isinstance(payload, Foreign):
                ignored = {"position": after.position, "ignored": state.ignored + 1}
                assert after == state.evolve(**ignored, at=event.at)
        state = after


@given(events=JOURNALS)
def test_only_an_unknown_type_that_may_not_be_skipped_forbids_driving(events):
    state = RunState()
    for event in events:
        after = apply(state, event)
        foreign = isinstance(event.payload, Foreign) and not event.skippable
        assert after.foreign == (event.type if foreign else state.foreign)
        state = after


@pytest.mark.parametrize("name", [*TYPES])
def test_every_event_type_survives_its_line(name):
    @given(event=written(FACTS[name]))
    def survives(event):
        line = event.encode()
        again = decode(line)
        assert again == event
        assert type(again.payload) is TYPES[name]
        assert again.encode() == line
        assert b"\n" not in line
        assert b"\x00" not in line

    survives()


@given(event=written(UNKNOWN))
def test_an_unknown_type_is_carried_as_it_is(event):
    line = event.encode()
    assert decode(line) == event
    assert decode(line).encode() == line


@given(events=JOURNALS)
def test_a_journal_read_again_gives_the_same_state(events):
    assert fold(decode(event.encode()) for event in events) == fold(events)


def test_half_a_character_in_a_line_of_a_later_version_is_read_and_written_again():
    line = (
        b'{"id":"e","seq":1,"tenant_id":"t","session_id":"s","run_id":"r","position":1,'
        b'"type":"later.fact","at":"2026-09-01T08:00:00Z","payload":{"a":"\\ud83d","\\u0000":[1]}}'
    )
    event = decode(line)
    assert decode(event.encode()) == event
    assert "\ufffd" in event.encode().decode()


def test_a_known_type_of_another_shape_is_carried_as_a_foreign_one():
    line = ToolCalled(call_id="c1", launch=1)
    event = Event(
        id="e",
        seq=1,
        tenant_id="t",
        session_id="s",
        run_id="r",
        position=1,
        type="tool.called",
        at=T0,
        payload=line,
    )
    later = event.encode().replace(b'"launch":1', b'"launch":1,"tomorrow":2')
    assert isinstance(decode(later).payload, Foreign)
    assert decode(later).encode() == later
    assert fold([decode(later)]).foreign == "tool.called"


def test_amounts_that_no_number_holds_are_ignored():
    kind = TYPES["model.failed"]
    dear = kind.model_validate({"step": 1, "code": "x", "cost": "9e999999"})
    event = Event(
        id="e",
        seq=1,
        tenant_id="t",
        session_id="s",
        run_id="r",
        position=1,
        type=dear.type,
        at=T0,
        payload=dear,
    )
    assert fold([event, event]).ignored == 1


def test_an_outcome_of_an_older_epoch_is_ignored():
    def event(fact: Payload, position: int, epoch: int) -> Event:
        return Event(
            id=f"e{position}",
            seq=position,
            tenant_id="t",
            session_id="s",
            run_id="r",
            position=position,
            type=fact.type,
            at=T0,
            epoch=epoch,
            payload=fact,
        )

    claimed = event(TYPES["run.claimed"](), 1, 2)
    late = event(TYPES["cancel.requested"].model_validate({"by": {"id": "x"}}), 2, 1)
    assert fold([claimed, late]).cancel is None


def test_the_golden_line_of_each_event_type_is_read_and_written_as_it_was():
    lines = GOLDEN.read_bytes().splitlines()
    assert {decode(line).type for line in lines} == set(TYPES)
    for line in lines:
        event = decode(line)
        assert type(event.payload) is TYPES[event.type]
        assert event.encode() == line


ADDITIONS = st.lists(st.tuples(st.integers(0, 30), st.lists(NUMBERS, max_size=3)), max_size=30)


@given(additions=ADDITIONS)
def test_a_vec_is_a_tuple_whichever_version_grows(additions):
    versions = [(Vec[int](), ())]
    for which, items in additions:
        vec, model = versions[which % len(versions)]
        versions.append((vec.add(*items), (*model, *items)))
    for vec, model in versions:
        assert tuple(vec) == model
        assert len(vec) == len(model)
        assert vec[1:-1] == list(model[1:-1])
        assert [vec[-n] for n in range(1, len(model) + 1)] == list(reversed(model))
        assert vec == Vec(model)
        assert hash(vec) == hash(Vec(model))
        for other, theirs in versions:
            if vec.extends(other):
                assert model[: len(theirs)] == theirs


@given(additions=ADDITIONS)
def test_a_ranked_is_a_set_whichever_version_grows(additions):
    versions = [(Ranked[int](), frozenset())]
    for which, items in additions:
        ranked, model = versions[which % len(versions)]
        for item in items:
            ranked, model = ranked.add(item), model | {item}
        versions.append((ranked, model))
    for ranked, model in versions:
        assert set(ranked) == model
        assert len(ranked) == len(model)
        assert all((n in ranked) == (n in model) for n in range(7))
        assert all((ranked == other) == (model == theirs) for other, theirs in versions)
