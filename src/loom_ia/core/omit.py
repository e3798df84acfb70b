"""Which fields a journal line leaves out: those that say nothing."""

from functools import partial
from operator import is_, not_

from pydantic import Field

EMPTY = Field(exclude_if=not_)
"""Annotates a field that is left out when it is empty, false or zero."""

NONE = Field(exclude_if=partial(is_, None))
"""Annotates a field that is left out when it is None; its zero is worth writing."""
