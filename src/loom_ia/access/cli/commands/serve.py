"""`loom serve`: offer the agents to others over HTTP."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from loom_ia.access.cli.session import COMPLETED, loom_of, say, wait
from loom_ia.core.text import Text

HELP = Text("serve the agents over HTTP")


def configure(parser: ArgumentParser) -> None:
    """Where to listen."""
    about = Text("address to listen on (server.host, else 127.0.0.1)")
    parser.add_argument("--host", metavar="ADDRESS", help=str(about))
    about = Text("port to listen on (server.port, else 8000); 0 takes a free one")
    parser.add_argument("--port", type=int, metavar="N", help=str(about))


def run(arguments: Namespace) -> int:
    """Serve until interrupted."""
    from loom_ia.access.http import create_app  # noqa: PLC0415

    loom = loom_of(arguments)
    app = create_app(loom)
    from loom_ia.access.http.routes.probes import OPEN  # noqa: PLC0415
    from loom_ia.access.http.serving import address, listen, serve  # noqa: PLC0415

    server = loom.config.server
    host = server.host if arguments.host is None else arguments.host
    port = server.port if arguments.port is None else arguments.port
    with listen(host, port) as listening:
        where = address(listening)

        def started() -> None:
            say(Text("Listening  : {address} (documentation: {address}/docs)", {"address": where}))
            if app.state.service.open:
                say(Text("Warning    : {warning}", {"warning": OPEN}))

        wait(serve(app, listening, started))
    return COMPLETED
