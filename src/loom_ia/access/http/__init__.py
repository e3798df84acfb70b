"""The REST door: an application for `loom serve`, or to be mounted in one that exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom_ia.access.http.caller import Authenticate, Caller

if TYPE_CHECKING:
    from fastapi import FastAPI

    from loom_ia.runtime.loom import Loom

__all__ = ("Authenticate", "Caller", "create_app")


def create_app(loom: Loom, *, authenticate: Authenticate | None = None) -> FastAPI:
    """Application that serves a Loom: alone, or mounted in another FastAPI application.

    Served alone it opens the Loom and closes it. Mounted, it serves a Loom that the application
    around it has entered: nobody runs the lifespan of what is mounted.

    `authenticate` says who asks, from the headers of a request; without it the API is open.

    Raises:
        ExtraMissingError: what the extra `http` brings is not installed.
        OpenApiRefusedError: nothing says who asks, and the profile is `prod`.

    """
    from loom_ia.config.extras import missing_package  # noqa: PLC0415
    from loom_ia.core.text import Text  # noqa: PLC0415

    try:
        from loom_ia.access.http.app import build  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("loom_ia"):
            raise
        raise missing_package(Text("Access"), "http", error.name or "") from error
    return build(loom, authenticate)
