"""What one append wrote, in the little room that a journal in memory can give it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from loom_ia.adapters.storage.group import Group
from loom_ia.core.events import Event, Payload
from loom_ia.core.events.envelope import TYPES
from loom_ia.core.ports import Draft, RunRef
from loom_ia.core.trusted import trusted

Fact = tuple[object, ...]
"""Its id, its span, its type, then the values of its fields: a third of what its models weigh, and
nothing in it but texts and numbers, mostly, that the collector has not to look at."""


@dataclass(slots=True, eq=False)
class Packed:
    """The facts of one append, made again when they are read."""

    ref: RunRef
    facts: tuple[Fact, ...]
    seq: int
    """Position of the first one in the session."""
    position: int
    """Position of the first one in the run."""
    at: datetime
    epoch: int

    @classmethod
    def of(cls, group: Group) -> Packed:
        """What was just written."""
        facts = tuple([_fact(draft) for draft in group.drafts])
        return cls(group.ref, facts, group.seq, group.position, group.at, group.epoch)

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.group())

    def group(self) -> Group:
        """As it was written."""
        drafts = [_draft(*fact) for fact in self.facts]
        return Group(self.ref, drafts, self.seq, self.position, self.at, self.epoch)


def _fact(draft: Draft) -> Fact:
    payload = draft.payload
    if payload.type not in TYPES:  # of another version: carried as it is
        return (draft.id, draft.span_id, payload)
    return (draft.id, draft.span_id, payload.type, *payload.__dict__.values())


def _draft(id_: object, span: object, kind: object, *values: object) -> Draft:
    return Draft(str(id_), _payload(kind, values), str(span))


def _payload(kind: object, values: tuple[object, ...]) -> Payload:
    if isinstance(kind, Payload):
        return kind
    cls = TYPES[str(kind)]
    return trusted(cls, dict(zip(cls.model_fields, values, strict=True)))
