"""Which fields a journal line leaves out: those that say nothing."""

from operator import not_

from pydantic import Field


def _none(value: object) -> bool:
    return value is None


EMPTY = Field(exclude_if=not_)
"""Annotates a field that is left out when it is empty, false or zero."""

NONE = Field(exclude_if=_none)
"""Annotates a field that is left out when it is None; its zero is worth writing."""
