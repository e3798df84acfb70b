"""Errors of requests made to a running Loom."""

from __future__ import annotations

from loom_ia.core.errors import Kind, LoomError


class UnknownAgentError(LoomError):
    """No agent has this name."""

    kind = Kind.MISSING
    template = "agent {agent}: unknown; the configuration has {names}"


class UnknownTenantError(LoomError):
    """No tenant has this name."""

    kind = Kind.MISSING
    template = "tenant {tenant}: unknown; the configuration declares none, use «default»"


class KeyUsedError(LoomError):
    """The key was given with another request before."""

    kind = Kind.CONFLICT
    template = (
        "key {key}: run {run_id} was asked for something else with it; give each request its own"
    )


class NotWaitingError(LoomError):
    """The run has no such question open."""

    kind = Kind.CONFLICT
    template = "run {run_id}: no decision is awaited for {call}; awaited: {open}"


class AlreadyDecidedError(LoomError):
    """Somebody decided before."""

    kind = Kind.CONFLICT
    template = "run {run_id}, call {call}: {by} already decided ({decision}) at {at}"


class NotUnknownError(LoomError):
    """Nobody doubts of this call."""

    kind = Kind.CONFLICT
    template = "call {call}: it has not left, so nobody can say whether it happened"


class ScopeMissingError(LoomError):
    """The key of who decides does not have the scope that the question needs."""

    kind = Kind.FORBIDDEN
    template = "run {run_id}, call {call}: {by} needs the scope {scope} to decide"


class WrongArgumentsError(LoomError):
    """Corrected arguments do not fit the tool."""

    kind = Kind.INVALID
    template = "call {call}: {reason}; nothing was decided"


class NotResumableError(LoomError):
    """The run is over for good."""

    kind = Kind.CONFLICT
    template = "run {run_id} has ended ({status}) and cannot be resumed"


class NotEnteredError(LoomError):
    """The Loom is used outside its `async with` block."""

    kind = Kind.INVALID
    template = "this Loom is not open; use it inside «async with Loom(…) as loom:»"


class JudgesRefusedError(LoomError):
    """Judges may not be skipped here."""

    kind = Kind.FORBIDDEN
    template = 'judges="skip" is refused in profile prod'


class ArgumentsUnreadableError(LoomError):
    """Corrected arguments that nobody can read."""

    kind = Kind.INVALID
    template = "--arguments: {reason}; give a JSON object, or @file that holds one"


class SessionNotFoundError(LoomError):
    """No session has this id for this tenant."""

    kind = Kind.MISSING
    template = "session {session_id}: unknown; check the id and the configuration"


class InvalidRequestError(LoomError):
    """A caller gave something else than what is expected."""

    kind = Kind.INVALID
    template = "{what}: {expected} is expected, not {given}"


class RequestNotFoundError(LoomError):
    """The run made fewer requests than that."""

    kind = Kind.MISSING
    template = "run {run_id}: no request {number}; it has made {count} so far, numbered from 1"


class ContentLostError(LoomError):
    """What a model was sent is no longer kept."""

    kind = Kind.BROKEN
    template = (
        "run {run_id}, request {number}: {part} is no longer there (content {digest}); "
        "loom inspect {run_id} shows the rest of the run"
    )


class ReportOptionsError(LoomError):
    """Nothing says whose consumption is asked, or several things do."""

    kind = Kind.INVALID
    template = (
        "report: give a run, or --session ID, or --tenant ID with --period day or month "
        "(one of the three)"
    )
