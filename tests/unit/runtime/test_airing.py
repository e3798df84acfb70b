"""Text that followers see as it comes: in its place, and bounded for who does not take it."""

import sys
from datetime import UTC, datetime

from loom_ia.core.events import Event, RunResumed
from loom_ia.core.events.run import Principal
from loom_ia.core.model import Discard, TextDelta
from loom_ia.runtime.airing import ROOM, Air, Ear

AT = datetime(2026, 9, 1, tzinfo=UTC)


def event(position: int) -> Event:
    payload = RunResumed(by=Principal(id="a"))
    return Event(
        id=str(position),
        seq=position,
        tenant_id="t",
        session_id="s",
        run_id="r",
        position=position,
        type="run.resumed",
        at=AT,
        payload=payload,
    )


def delta(text: str) -> TextDelta:
    return TextDelta(text=text, run_id="r")


def taken(ear: Ear, until: int, *, loose: bool = False) -> list[str]:
    return [
        piece.text if isinstance(piece, TextDelta) else "void"
        for piece in ear.pieces(until, loose=loose)
    ]


def test_pieces_stand_behind_the_event_before_them_and_are_joined():
    ear = Ear()
    for item in (event(3), delta("a"), delta("b"), event(4), delta("c")):
        ear.take(item)
    assert taken(ear, 2) == []
    assert taken(ear, 3) == ["ab"]
    assert taken(ear, 3) == []
    assert taken(ear, 9) == ["c"]


def test_what_is_heard_before_any_event_comes_right_before_the_first():
    ear = Ear()
    ear.take(delta("a"))
    assert taken(ear, 9) == []
    ear.take(event(5))
    ear.take(delta("b"))
    assert taken(ear, 3) == []
    assert taken(ear, 4) == ["a"]
    assert taken(ear, 5) == ["b"]


def test_what_is_heard_before_any_event_is_given_once_all_was_read():
    ear = Ear()
    ear.take(delta("a"))
    assert taken(ear, 9, loose=True) == ["a"]


def test_who_does_not_take_what_comes_is_told_that_it_is_void_and_costs_little():
    ear = Ear()
    ear.take(event(1))
    for _ in range(100_000):
        ear.take(delta("x" * 50))
    assert sum(sys.getsizeof(piece) for _, piece in ear._pieces) < ROOM
    assert taken(ear, 1) == ["void"]
    ear.take(delta("still of that answer"))
    assert taken(ear, 1) == []
    ear.take(event(2))
    ear.take(delta("of the next one"))
    assert taken(ear, 2) == ["of the next one"]


def test_a_void_attempt_is_told_in_its_place():
    ear = Ear()
    for item in (event(1), delta("a"), Discard(run_id="r"), delta("b")):
        ear.take(item)
    assert taken(ear, 1) == ["a", "void", "b"]


def test_only_those_who_listen_to_a_run_hear_of_it_and_nothing_is_left_of_them():
    air = Air()
    with air.listen("r") as one, air.listen("other") as two:
        air.show(delta("a"))
        assert taken(one, 0, loose=True) == ["a"]
        assert taken(two, 0, loose=True) == []
    air.show(delta("b"))
    assert not air._ears
