"""`loom sessions`: what is done to whole conversations."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from loom_ia.access.cli.progress import Progress, shown
from loom_ia.access.cli.session import (
    command,
    loom_of,
    principal,
    say,
    show,
    show_data,
    show_json,
    wait,
)
from loom_ia.access.cli.table import instant, number, table
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.core.projections.view import RunLine, SessionView
    from loom_ia.runtime.loom import Loom

HELP = Text("manage conversations")
PAGE = 50
STANDINGS = {
    "running": Text("running"),
    "waiting": Text("waits for a decision"),
    "idle": Text("nobody drives it"),
}
Action = Callable[["Loom", Namespace], Coroutine[object, object, int]]


def configure(parser: ArgumentParser) -> None:
    """What to do, to which session."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    def action(name: str, about: Text, act: Action, *, one: bool = True) -> ArgumentParser:
        added = actions.add_parser(name, help=str(about), description=str(about))
        added.set_defaults(act=act)
        if one:
            added.add_argument("session_id", metavar="SESSION", help=str(Text("id of the session")))
        return added

    _paged(action("list", Text("list conversations, newest first"), _list, one=False))
    _paged(action("show", Text("show a conversation and its runs, newest first"), _show))
    export = action("export", Text("write a conversation and what it names as JSON lines"), _export)
    export.add_argument(
        "--output", metavar="FILE", help=str(Text("a file, written whole (standard output)"))
    )
    export.add_argument(
        "--json", action="store_true", help=str(Text("with --output, print what was written"))
    )
    delete = action(
        "delete", Text("erase a conversation, its files and its keys for good"), _delete
    )
    delete.add_argument("--yes", action="store_true", help=str(Text("ask nothing")))
    delete.add_argument("--json", action="store_true", help=str(Text("print the result as JSON")))
    about = Text("set damaged journal lines aside, so that their runs go on")
    repair = action("repair", about, _repair)
    repair.add_argument("--json", action="store_true", help=str(Text("print the result as JSON")))


def _paged(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=int, default=PAGE, metavar="N", help=str(Text("lines at most (50)"))
    )
    parser.add_argument(
        "--after", default="", metavar="CURSOR", help=str(Text("go on behind the page before"))
    )
    parser.add_argument("--json", action="store_true", help=str(Text("print the list as JSON")))


def run(arguments: Namespace) -> int:
    """Do it."""

    async def done(loom: Loom) -> int:
        async with loom:
            act: Action = arguments.act
            return await act(loom, arguments)

    return wait(done(loom_of(arguments)))


async def _list(loom: Loom, arguments: Namespace) -> int:
    page = await loom.sessions(after=arguments.after, limit=arguments.limit)
    if arguments.json:
        show_json(page)
        return 0
    head = ("Session", Text("Started"), Text("Last event"), Text("Runs"), Text("Open"))
    _table(head, [_session_row(view) for view in page.sessions], left=3)
    _more(page.next, arguments, "list", ())
    return 0


async def _show(loom: Loom, arguments: Namespace) -> int:
    found = await loom.session(arguments.session_id, after=arguments.after, limit=arguments.limit)
    if arguments.json:
        show_json(found)
        return 0
    say(_sentence(found))
    head = ("Run", "Agent", Text("Started"), Text("Last event"), Text("Status"))
    _table(head, [_run_row(line) for line in found.lines], left=5)
    _more(found.next, arguments, "show", _named(arguments.session_id))
    return 0


def _sentence(view: SessionView) -> Text:
    params: dict[str, object] = {
        "session": view.session_id,
        "runs": number(view.runs),
        "open": number(view.open_runs),
        "at": instant(view.started_at),
    }
    return Text("Session {session}, since {at}: {runs} run(s), {open} not ended.", params)


def _session_row(view: SessionView) -> list[str]:
    return [
        view.session_id,
        instant(view.started_at),
        instant(view.updated_at),
        number(view.runs),
        number(view.open_runs),
    ]


def _run_row(line: RunLine) -> list[str]:
    status = str(STANDINGS.get(line.status, line.status))
    return [line.run_id, line.agent, instant(line.started_at), instant(line.updated_at), status]


def _table(head: tuple[object, ...], rows: list[list[str]], *, left: int) -> None:
    if not rows:
        say(Text("Nothing to list."))
        return
    for line in table([[str(cell) for cell in head], *rows], left=left):
        show(line)


def _more(cursor: str, arguments: Namespace, name: str, what: tuple[str, ...]) -> None:
    """Say how the next page is asked for."""
    if cursor:
        limit = ("--limit", str(arguments.limit)) if arguments.limit != PAGE else ()
        typed = command(arguments, "sessions", name, *limit, f"--after={cursor}", *what)
        say(Text("Next page: {command}", {"command": typed}))


def _named(session_id: str) -> tuple[str, ...]:
    """A session as it can be typed, even when it looks like an option."""
    return ("--", session_id) if session_id.startswith("-") else (session_id,)


async def _export(loom: Loom, arguments: Namespace) -> int:
    from loom_ia.access.cli.output import target  # noqa: PLC0415

    with target(arguments.output) as write:
        if arguments.output is None:
            await _write(loom, arguments, write, Progress())
            return 0
        progress = Progress()
        async with shown(progress):
            count = await _write(loom, arguments, write, progress)
    if arguments.json:
        show_data({"session_id": arguments.session_id, "output": arguments.output, "lines": count})
    return 0


async def _write(
    loom: Loom, arguments: Namespace, write: Callable[[bytes], object], progress: Progress
) -> int:
    """Lines that were written."""
    count = 0
    async for line in loom.export_session(arguments.session_id):
        write(line.encode() + b"\n")
        count += 1
        progress.what = Text("{count} lines written", {"count": number(count)})
    return count


async def _delete(loom: Loom, arguments: Namespace) -> int:
    from loom_ia.access.cli.asking import confirmed  # noqa: PLC0415

    session_id = arguments.session_id
    if not arguments.yes:
        typed = command(arguments, "sessions", "delete", "--yes", *_named(session_id))
        if not confirmed(_sentence(await loom.session(session_id)), typed):
            say(Text("Nothing was erased."))
            if arguments.json:
                show_data({"session_id": session_id, "erased": False})
            return 0
    erased = await loom.delete_session(session_id, by=principal())
    if arguments.json:
        show_json(erased)
        return 0
    params: dict[str, object] = {"session": session_id, "by": erased.by, "at": instant(erased.at)}
    show(Text("Session {session} was erased by {by} on {at}; its id is not used again.", params))
    if erased.pending:
        say(Text("Contents used within the last minute go at the next command."))
    return 0


async def _repair(loom: Loom, arguments: Namespace) -> int:
    async with shown(Progress()):
        lines = await loom.repair(arguments.session_id)
    if arguments.json:
        show_data({"session_id": arguments.session_id, "lines": list(lines)})
        return 0
    if not lines:
        say(Text("Nothing to repair in session {session}.", {"session": arguments.session_id}))
    for line in lines:
        show(Text("Line {line} was set aside.", {"line": line}))
    return 0
