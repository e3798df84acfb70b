"""Why a model gave no answer, classified once: what may be tried again, elsewhere, or never."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.model.usage import Usage


class ModelError(LoomError):
    """A model gave no answer, and nothing says why. Adapters raise this class only."""

    kind = Kind.UNAVAILABLE
    template = "model {model}: {reason}"
    retried: ClassVar[bool] = False
    """The same model may be asked the same again."""
    counted: ClassVar[bool] = False
    """It speaks of the provider's health: the circuit breaker counts it."""

    def __init__(
        self, *, usage: Usage | None = None, retry_after: float | None = None, **params: object
    ) -> None:
        """Take what is known of the failed attempt.

        `usage` is what it consumed, zeros when the provider refused it before any work, None when
        nobody knows; `retry_after`, the seconds that the provider asks to wait.
        """
        super().__init__(**params)
        self.usage, self.retry_after = usage, retry_after


class ModelTransientError(ModelError):
    """Busy, broken, silent or cut: later it may answer."""

    retried = True
    counted = True
    template = "model {model}: {reason}"


class ModelQuotaError(ModelError):
    """The account has no credit left: only another model helps."""

    kind = Kind.LIMITED
    template = "model {model}: quota exhausted; {reason}"


class ModelAuthError(ModelError):
    """The provider does not accept the key."""

    kind = Kind.CONFIG
    template = "model {model}: key refused, check the variable of api_key_env; {reason}"


class ModelRequestError(ModelError):
    """The provider finds the request wrong: sent again, it would be wrong again."""

    kind = Kind.CONFIG
    template = "model {model}: request refused as invalid; {reason}"


class ModelParamError(ModelRequestError):
    """The provider refuses a parameter that the configuration gives."""

    template = "model {model}: parameter '{name}' refused; remove it or change it{place}; {reason}"


class ModelRefusedError(ModelError):
    """The model, or a filter of its provider, declines to answer."""

    kind = Kind.INVALID
    template = "model {model} declined to answer ({reason})"


class ModelTruncatedError(ModelError):
    """The answer stopped at its limit before it said anything."""

    kind = Kind.LIMITED
    template = "model {model}: {reason}; raise max_tokens"


class ModelOverflowError(ModelError):
    """The conversation is longer than the model can read."""

    kind = Kind.LIMITED
    template = "model {model}: the conversation exceeds its context window; {reason}"


class ModelSuspendedError(ModelError):
    """The circuit breaker keeps the model aside for every run of the instance."""

    template = "model {model}: set aside after repeated failures; try again in {seconds} s"


_CODES: Mapping[str, type[ModelError]] = {
    "insufficient_quota": ModelQuotaError,
    "billing_error": ModelQuotaError,
    "billing_hard_limit_reached": ModelQuotaError,
    "billing_not_active": ModelQuotaError,
    "authentication_error": ModelAuthError,
    "permission_error": ModelAuthError,
    "invalid_api_key": ModelAuthError,
    "context_length_exceeded": ModelOverflowError,
    "request_too_large": ModelOverflowError,
    "content_filter": ModelRefusedError,
    "content_policy_violation": ModelRefusedError,
    "invalid_prompt": ModelRefusedError,
    "overloaded_error": ModelTransientError,
    "rate_limit_error": ModelTransientError,
    "rate_limit_exceeded": ModelTransientError,
    "api_error": ModelTransientError,
    "timeout_error": ModelTransientError,
    "server_error": ModelTransientError,
    # The model wrote a call that its server could not read: asked again, it writes another.
    "tool_use_failed": ModelTransientError,
}
_WORDS: tuple[tuple[str, type[ModelError]], ...] = (
    ("credit balance is too low", ModelQuotaError),
    ("prompt is too long", ModelOverflowError),
    ("maximum context length", ModelOverflowError),
    ("context window", ModelOverflowError),
    ("context size", ModelOverflowError),
)
_STATUSES: Mapping[int, type[ModelError]] = {
    401: ModelAuthError,
    402: ModelQuotaError,
    403: ModelAuthError,
    408: ModelTransientError,
    409: ModelTransientError,
    413: ModelOverflowError,
    425: ModelTransientError,
    429: ModelTransientError,
}
BAD_REQUEST, SERVER_ERROR = 400, 500


def blamed(reason: str, names: Iterable[str]) -> str:
    """The parameter that a refusal speaks of; empty when it names none, or several."""
    found = [name for name in names if re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", reason)]
    return found[0] if len(found) == 1 else ""


def classify(status: int | None, codes: tuple[str, ...], message: str) -> type[ModelError]:
    """Class of what a provider answered: its own words first, then the HTTP status.

    Without a status the error came inside a stream that had begun.
    """
    for code in codes:
        if code in _CODES:
            return _CODES[code]
    lowered = message.lower()
    for words, found in _WORDS:
        if words in lowered:
            return found
    if status is None or status >= SERVER_ERROR:
        return ModelRequestError if "invalid_request_error" in codes else ModelTransientError
    if status < BAD_REQUEST:  # a redirection: nothing follows it with a key in hand
        return ModelRequestError
    return _STATUSES.get(status, ModelRequestError)
