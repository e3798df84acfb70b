"""Keys of models: read from their variables when the model is opened, wanted when it is asked."""

from __future__ import annotations

from loom_ia.core.failures import ModelAuthError
from loom_ia.core.model import ModelSpec, Usage


def checked_key(spec: ModelSpec, key: str) -> None:
    """Refuse to leave without the key that the configuration names.

    Raises:
        ModelAuthError: its variable is empty; nothing was sent.

    """
    if spec.api_key_env and not key:
        reason = f"{spec.api_key_env} is not set"
        raise ModelAuthError(usage=Usage(), model=spec.id, reason=reason)
