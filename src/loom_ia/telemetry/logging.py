"""Technical logs: one line for each call of a model or a tool, without its content.

The engine logs through the standard library, with `extra={"run_id", "span_id", "tenant_id"}`. Until
`configure_logging` is called, nothing is shown; what an application installed is never touched.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal, TextIO, get_args

from loom_ia.core.errors import Kind, LoomError

ROOT = "loom_ia"
FIELDS = ("run_id", "span_id", "tenant_id")

Format = Literal["console", "json"]
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

logging.getLogger(ROOT).addHandler(logging.NullHandler())


class LoggingOptionError(LoomError):
    """A level or a format that does not exist."""

    kind = Kind.CONFIG
    template = "logging {option}: {value!r}; accepted: {accepted}"


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the standard error of the moment; the only handler that Loom-IA installs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        if sys.stderr is not None:  # it is under pythonw
            self.stream = sys.stderr
            super().emit(record)


def _own(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    for name in FIELDS:
        value: object = getattr(record, name, None)
        if isinstance(value, str) and value:
            yield name, value


def _instant(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ConsoleFormatter(logging.Formatter):
    """One line for people; a traceback follows on its own lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Instant, level, logger, message, identifiers."""
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        ids = " ".join(f"{name}={value}" for name, value in _own(record))
        head = f"{_instant(record)} {record.levelname:<7} {record.name} {message}"
        line = f"{head}  {ids}" if ids else head
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The same, with the traceback as a field."""
        line = {
            "time": _instant(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **dict(_own(record)),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_logging(level: str = "INFO", format: Format = "console") -> None:  # noqa: A002 - the name users write
    """Show the logs of Loom-IA on standard error; called again, it replaces what it did.

    Raises:
        LoggingOptionError: the level or the format does not exist.

    """
    wanted = level.upper()
    if wanted not in LEVELS:
        raise LoggingOptionError(option="level", value=level, accepted=", ".join(LEVELS))
    if format not in get_args(Format):
        accepted = ", ".join(get_args(Format))
        raise LoggingOptionError(option="format", value=format, accepted=accepted)
    logger = logging.getLogger(ROOT)
    for handler in [one for one in logger.handlers if isinstance(one, StderrHandler)]:
        logger.removeHandler(handler)
    handler = StderrHandler()
    handler.setFormatter(JsonFormatter() if format == "json" else ConsoleFormatter())
    logger.addHandler(handler)
    logger.setLevel(wanted)
