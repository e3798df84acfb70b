"""Errors raised on purpose: a stable code, a kind that each access maps once, and a sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from loom_ia.core.text import Text


class Kind(StrEnum):
    """What a caller can do about an error; accesses map kinds, never classes."""

    INVALID = "invalid"
    """The request is wrong: correct it."""
    CONFIG = "config"
    """The configuration is wrong: correct it, then load again."""
    MISSING = "missing"
    """What was named does not exist."""
    CONFLICT = "conflict"
    """Somebody else came first, or the run is elsewhere."""
    FORBIDDEN = "forbidden"
    """The principal may not do this."""
    LIMITED = "limited"
    """A quota or a limit is reached: later, or less."""
    UNAVAILABLE = "unavailable"
    """A store, a model or a server does not answer: later."""
    BROKEN = "broken"
    """Data or code is damaged: a human must look."""


def _code(name: str) -> str:
    stem = name.removesuffix("Error")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in stem).lstrip("_")


class LoomError(Exception):
    """Root of every error raised on purpose.

    `code` is derived from the class name (`JournalMovedError` → `journal_moved`) and is stable;
    journals hold it with `params`, never the sentence.
    """

    kind: ClassVar[Kind] = Kind.BROKEN
    template: ClassVar[str] = "internal error"
    code: ClassVar[str] = "loom"
    registry: ClassVar[dict[str, type[LoomError]]] = {}

    def __init__(self, **params: object) -> None:
        super().__init__()
        self.params = params

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.code = _code(cls.__name__)
        if LoomError.registry.setdefault(cls.code, cls) is not cls:
            msg = f"error code {cls.code!r} is defined twice"
            raise TypeError(msg)

    @property
    def text(self) -> Text:
        """The sentence, not yet translated."""
        return Text(self.template, self.params)

    def __str__(self) -> str:
        return str(self.text)


def sentence(code: str, params: dict[str, object]) -> Text:
    """Sentence of an error that a journal holds as a code; an unknown code is shown as it is."""
    found = LoomError.registry.get(code)
    return Text(found.template if found else "{code}", {"code": code, **params})


class JournalMovedError(LoomError):
    """Others wrote to the run since the writer read it; nothing was written."""

    kind = Kind.CONFLICT
    template = "journal of run {run_id}: expected {expected} events, found {actual}"


class EpochStaleError(LoomError):
    """Another driver claimed the run; nothing was written."""

    kind = Kind.CONFLICT
    template = "run {run_id}: driven under epoch {actual}, this writer holds {expected}"


class RequestExpiredError(LoomError):
    """The decision comes at or after the end of the time given to decide."""

    kind = Kind.CONFLICT
    template = (
        "run {run_id}: the time to decide of {call} ended at {at}; nothing was decided, "
        "and the call does not leave"
    )


class RunStoppedError(LoomError):
    """The run has ended, or someone asked to stop it; nothing was written."""

    kind = Kind.CONFLICT
    template = "run {run_id}: already ended, or being cancelled"


class SessionBusyError(LoomError):
    """Another run of the session is queued or driven."""

    kind = Kind.CONFLICT
    template = (
        "session {session_id}: run {run_id} is still going; "
        "wait for its end, resume it if it was cut (loom resume {run_id}), cancel it, "
        "or use another session"
    )


class RunExistsError(LoomError):
    """The chosen run id is taken."""

    kind = Kind.CONFLICT
    template = "run {run_id} exists already; choose another id"


class RunHeldError(LoomError):
    """A living driver holds the lease of the run."""

    kind = Kind.CONFLICT
    template = "run {run_id} is driven by {holder} until {until}; wait, or take it with --now"


class RunNotFoundError(LoomError):
    """No run has this id for this tenant."""

    kind = Kind.MISSING
    template = "run {run_id}: unknown; check the id and the configuration it was started with"


class RunEndedError(LoomError):
    """The run is over; the request comes too late."""

    kind = Kind.CONFLICT
    template = "run {run_id} has ended ({status}); nothing was changed"


class JournalDamagedError(LoomError):
    """A line of the journal cannot be read."""

    kind = Kind.BROKEN
    template = (
        "{path}:{line}: damaged journal line; "
        "run «loom sessions repair {session_id}» to set it aside and go on"
    )


class UnknownEventError(LoomError):
    """The run holds an event that this version does not know and may not skip."""

    kind = Kind.BROKEN
    template = (
        "run {run_id} holds an event of type {type}, unknown to this version; "
        "update Loom-IA before resuming it"
    )


class StoreUnavailableError(LoomError):
    """The store did not take, or did not give, what was asked; nothing after it was done."""

    kind = Kind.UNAVAILABLE
    template = "storage {path}: {reason}"


class SessionErasedError(StoreUnavailableError):
    """The session was erased; nothing is written in it any more, and its id is not used again."""

    kind = Kind.CONFLICT
    template = "session {session_id} was erased by {by} at {at}; choose another id"


class SessionHeldError(LoomError):
    """A living driver holds a run of the session, which cannot be erased meanwhile."""

    kind = Kind.CONFLICT
    template = (
        "session {session_id}: run {run_id} is driven by {holder} until {until}; "
        "nothing was erased; wait for its end, or stop that process and try again then"
    )


class InvalidCursorError(LoomError):
    """A cursor that no list gave."""

    kind = Kind.INVALID
    template = "cursor {cursor}: unknown; give the one that the page before ended with"


class InvalidIdError(LoomError):
    """An identifier chosen by the caller cannot be used."""

    kind = Kind.INVALID
    template = "{what} {value}: {reason}"


class LimitedError(LoomError):
    """Not now: `retry_after` says in how many seconds it is worth asking again."""

    kind = Kind.LIMITED
    template = "a limit is reached; try again in {retry_after} s"

    @property
    def retry_after(self) -> int:
        """Whole seconds, at least one."""
        found = self.params.get("retry_after")
        return max(found, 1) if isinstance(found, int) else 1


class RunQuotaError(LimitedError):
    """The tenant started as many runs within a minute as it may; nothing was written."""

    template = (
        "tenant {tenant_id}: at most {limit} runs a minute, and the run was not started; "
        "try again in {retry_after} s"
    )


class TenantBudgetError(LimitedError):
    """Nothing is left of what the tenant may spend; nothing was written."""

    template = (
        "tenant {tenant_id}: {limit} is {ceiling}, {spent} are spent and {reserved} reserved by "
        "other runs; the run was not started; wait for the next {span}, or raise the budget"
    )


class KeyRateError(LimitedError):
    """A key made as many requests within a minute as it may."""

    template = "key {key}: at most {limit} requests a minute; try again in {retry_after} s"


class NotPerformedError(LoomError):
    """An effect that this installation cannot perform was planned."""

    kind = Kind.BROKEN
    template = "run {run_id}: effect {effect} has no performer here"
