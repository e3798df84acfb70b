"""`loom report`: what a run, a session or a tenant consumed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from loom_ia.access.cli.session import loom_of, printable, show, show_json, wait
from loom_ia.access.cli.table import number, table
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from datetime import date

    from loom_ia.core.projections.report import Period, Report, Spent
    from loom_ia.runtime.loom import Loom

HELP = Text("show what a run, a conversation or a tenant consumed")
PERIODS: Mapping[str, Period] = {"day": "day", "month": "month", "jour": "day", "mois": "month"}
PLACES = 6
"""Decimals of a dollar: a call may cost less than a hundredth of a cent."""
HEAD = (
    Text("Calls"),
    Text("Input"),
    Text("Output"),
    Text("Cache read"),
    Text("Cache write"),
    Text("Reasoning"),
    Text("Cost"),
)


def configure(parser: ArgumentParser) -> None:
    """Whose consumption, and when."""
    parser.add_argument("run_id", metavar="RUN", nargs="?", help=str(Text("id of the run")))
    parser.add_argument("--session", metavar="ID", help=str(Text("a whole conversation")))
    parser.add_argument(
        "--tenant", metavar="ID", help=str(Text("a tenant, over the day or the month"))
    )
    parser.add_argument(
        "--periode",
        "--period",
        dest="period",
        choices=tuple(PERIODS),
        help=str(Text("calendar window of a tenant, in UTC (day)")),
    )
    parser.add_argument(
        "--date",
        type=_date,
        metavar="YYYY-MM-DD",
        help=str(Text("a day of the window (today)")),
    )
    parser.add_argument("--json", action="store_true", help=str(Text("print the report as JSON")))


def _date(given: str) -> date:
    from argparse import ArgumentTypeError  # noqa: PLC0415
    from datetime import date  # noqa: PLC0415

    try:
        return date.fromisoformat(given)
    except ValueError:
        text = Text("{given}: not a date; write it YYYY-MM-DD", {"given": ascii(given)})
        raise ArgumentTypeError(str(text)) from None


def run(arguments: Namespace) -> int:
    """Print the report."""
    report = wait(_report(loom_of(arguments), arguments))
    if arguments.json:
        show_json(report)
        return 0
    for line in lines(report):
        show(line)
    return 0


async def _report(loom: Loom, arguments: Namespace) -> Report:
    from loom_ia.runtime.errors import ReportOptionsError  # noqa: PLC0415

    windowed = bool(arguments.period or arguments.date)
    named = [given for given in (arguments.run_id, arguments.session) if given is not None]
    if len(named) + windowed > 1 or not (named or windowed or arguments.tenant):
        raise ReportOptionsError
    tenant = arguments.tenant or "default"
    async with loom:
        if not named:
            period = PERIODS[arguments.period or "day"]
            return await loom.consumption(tenant, period, day=arguments.date)
        return await loom.report(arguments.run_id, session=arguments.session, tenant=tenant)


def lines(report: Report) -> Iterator[str]:
    """A report for a person."""
    yield from _title(report)
    yield ""
    by_line = [(line.role, line.model, line) for line in report.lines]
    yield from _table((Text("Role"), Text("Model")), by_line, report)
    if len(report.by_model) < len(report.lines):
        yield ""
        by_model = [(model, "", spent) for model, spent in report.by_model.items()]
        yield from _table((Text("Model"), ""), by_model, report)
    total = report.total
    if total.unpriced or total.uncounted:
        params = {"calls": total.unpriced, "tokens": total.uncounted}
        yield ""
        text = Text("?: unknown; calls without a cost: {calls}, without tokens: {tokens}", params)
        yield str(text)


def _title(report: Report) -> Iterator[str]:
    if report.run_id is not None:
        yield str(Text("Run        : {run_id}", {"run_id": report.run_id}))
    if report.session_id is not None:
        yield str(Text("Session    : {value}", {"value": printable(report.session_id)}))
    if report.since is not None and report.until is not None:
        yield str(Text("Tenant     : {value}", {"value": printable(report.tenant_id)}))
        window = {"since": f"{report.since:%Y-%m-%d}", "until": f"{report.until:%Y-%m-%d}"}
        yield str(Text("Period     : from {since} to {until} excluded, UTC", window))
    if report.run_id is None:
        yield str(Text("Runs       : {value}", {"value": number(report.runs)}))


def _table(
    head: tuple[object, object], found: Sequence[tuple[str, str, Spent]], report: Report
) -> Iterator[str]:
    rows = [
        [str(head[0]), str(head[1]), *map(str, HEAD)],
        *([first, second, *_cells(spent)] for first, second, spent in found),
        [str(Text("Total")), "", *_cells(report.total)],
    ]
    return table(rows, left=2)


def _cells(spent: Spent) -> Iterator[str]:
    usage = spent.usage
    yield number(spent.calls)
    for count in (
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        usage.reasoning,
    ):
        known = f"~{number(count)}" if usage.estimated else number(count)
        yield _known(known, spent.calls - spent.uncounted, spent.uncounted)
    cost = f"{number(spent.known_cost, PLACES)} $"
    yield _known(cost, spent.calls - spent.unpriced, spent.unpriced)


def _known(known: str, told: int, unknown: int) -> str:
    """A figure, and a mark when a part of it is unknown: never a zero for what nobody knows."""
    if not unknown:
        return known
    return f"{known} + ?" if told else "?"
