"""Tool calls of a chat stream, told apart whatever indexes and ids a server gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from loom_ia.adapters.models.openai.parts import inner
from loom_ia.core.model import CallDelta, ToolCallBlock
from loom_ia.core.model.arguments import call_of, is_object


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    written: list[str] = field(default_factory=list[str])

    @property
    def arguments(self) -> str:
        """What was written so far."""
        return "".join(self.written)

    @property
    def whole(self) -> bool:
        """Nothing is missing: no argument, or a JSON object."""
        try:
            return not self.written or is_object(json.loads(self.arguments or "{}"))
        except (ValueError, RecursionError):
            return False


class Calls:
    """The calls of one answer, in order of arrival."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at: dict[object, _Call] = {}

    def feed(self, piece: Mapping[str, object]) -> CallDelta:
        """Take one piece of a call."""
        function = inner(piece, "function")
        index, identifier = piece.get("index"), str(piece.get("id") or "")
        name = str(function.get("name") or "")
        given = function.get("arguments")
        written = json.dumps(given, ensure_ascii=False) if is_object(given) else str(given or "")
        key = index if isinstance(index, int) else identifier
        call = self._at.get(key) if key != "" else (self._calls[-1] if self._calls else None)
        if call is None or (name and _another(call, identifier, name, written)):
            call = _Call()
            self._calls.append(call)
        if key != "":
            self._at[key] = call
        call.id = call.id or identifier
        if name != call.name and not call.written:
            call.name += name
        if written:
            call.written.append(written)
        return CallDelta(name=name, arguments=written)

    def blocks(self) -> list[ToolCallBlock]:
        """The calls; one without a name is none."""
        return [call_of(call.id, call.name, call.arguments) for call in self._calls if call.name]


def _another(call: _Call, identifier: str, name: str, written: str) -> bool:
    """Whether a piece that names a tool begins another call than the one at its place.

    Some servers repeat the name, or change the id, on every piece of one call.
    """
    if not call.name:
        return False
    if identifier and call.id and identifier != call.id:
        return call.whole
    if name != call.name:
        return bool(call.written)
    return bool(written and call.written) and not identifier and call.whole
