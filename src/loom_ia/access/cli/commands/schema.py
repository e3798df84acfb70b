"""`loom schema`: JSON Schema of the configuration, or of the journal."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from loom_ia.access.cli.session import ascii_only, show
from loom_ia.core.text import Text

HELP = Text("print the JSON Schema of the configuration")


def configure(parser: ArgumentParser) -> None:
    """Which schema."""
    about = str(Text("the schema of the journal's events instead"))
    parser.add_argument("--events", action="store_true", help=about)
    same = str(Text("the schema is JSON already; errors are then JSON too"))
    parser.add_argument("--json", action="store_true", help=same)


def run(arguments: Namespace) -> int:
    """Print it."""
    from loom_ia.config.schema import json_schema  # noqa: PLC0415
    from loom_ia.core.events.schema import events_schema  # noqa: PLC0415

    schema = events_schema() if arguments.events else json_schema()
    show(json.dumps(schema, ensure_ascii=ascii_only(), indent=2))
    return 0
