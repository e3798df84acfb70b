"""Policies that come with Loom-IA, under names that no project can take."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

PREFIX: Final = "loom."
PROVIDED: Final[Mapping[str, str]] = {
    "loom.grounded": "loom_ia.policies.grounded:grounded",
    "loom.require_tool": "loom_ia.policies.require_tool:require_tool",
}
"""Where each one is; its module is loaded once an agent plugs it."""


def provided(name: str) -> object | None:
    """A policy by its name; None when the name is not one of ours.

    Raises:
        ModuleNotFoundError: it needs a package that an extra brings.

    """
    where = PROVIDED.get(name)
    if where is None:
        return None
    module, _, attribute = where.partition(":")
    return vars(import_module(module))[attribute]
