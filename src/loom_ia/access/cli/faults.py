"""What went wrong, as JSON for the program that asked for JSON."""

from __future__ import annotations

import json

from loom_ia.access.cli.contract import MisuseError
from loom_ia.access.cli.session import ascii_only
from loom_ia.config.errors import ConfigError, Issue, dotted
from loom_ia.core.errors import LoomError


def document(error: BaseException, run_id: str) -> str:
    """One line: `{"error": {"code", "kind", "message"}}`, with the run that was begun if any,
    and each problem of a configuration with its place.
    """
    told: dict[str, object] = {**_named(error), "message": str(error)}
    if run_id:
        told["run_id"] = run_id
    if isinstance(error, ConfigError):
        told["issues"] = [_issue(issue) for issue in error.issues]
    return json.dumps({"error": told}, ensure_ascii=ascii_only())


def _named(error: BaseException) -> dict[str, object]:
    if isinstance(error, LoomError):
        return {"code": error.code, "kind": error.kind.value}
    if isinstance(error, KeyboardInterrupt):
        return {"code": "interrupted", "kind": "interrupted"}
    if isinstance(error, MisuseError):
        return {"code": "usage", "kind": "invalid"}
    return {"code": type(error).__name__, "kind": "broken"}


def _issue(issue: Issue) -> dict[str, object]:
    place = issue.place
    return {
        "path": place.path,
        "line": place.line,
        "column": place.column,
        "key": dotted(issue.loc),
        "message": str(issue.text),
    }
