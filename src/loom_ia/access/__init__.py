"""The doors: Python, the command line, and what serves others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loom_ia.runtime.loom import Loom

__all__ = ("Loom",)


def __getattr__(name: str) -> object:
    """Load the engine when it is used, not when a door is looked at."""
    if name == "Loom":
        import os  # noqa: PLC0415

        from loom_ia import locale  # noqa: PLC0415
        from loom_ia.runtime.loom import Loom  # noqa: PLC0415

        locale.install(os.environ)
        return Loom
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
