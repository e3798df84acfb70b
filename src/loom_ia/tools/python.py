"""A Python function as a tool: its schema, the check of its arguments, its launch, its result."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import CoroutineType
from typing import TypeGuard

from pydantic import ValidationError

from loom_ia.core.model import ContentBlock, ImageBlock, TextBlock, ToolSpec
from loom_ia.core.names import safe
from loom_ia.core.ports import InvalidArgumentsError, Launch, ToolContext, ToolOutput
from loom_ia.core.text import Text
from loom_ia.core.wording import Language
from loom_ia.tools.decorator import ToolDeclarationError, declaration_of, name_of
from loom_ia.tools.results import Part, ToolResultUnreadableError, parts_of
from loom_ia.tools.signature import read_signature
from loom_ia.tools.threads import Pool, Raised, Returned, shared
from loom_ia.tools.wording import not_json, refusal, unreadable

Save = Callable[[ToolContext, bytes, str], Awaitable[str]]
"""Keeps bytes of a media type for a call and gives their artifact uri."""

Late = Callable[[ToolContext, ToolOutput | Exception], None]
"""Told on the loop what an abandoned thread gave in the end."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a thread made of a result."""

    parts: tuple[Part, ...]


class PythonFunctionTool:
    """Tool made of a function, synchronous or not."""

    def __init__(  # each one is a port of the tool
        self,
        function: Callable[..., object],
        name: str = "",
        *,
        language: Language = "fr",
        save: Save | None = None,
        late: Late | None = None,
        pool: Pool | None = None,
    ) -> None:
        """Read the function once; nothing of it is read again at a call.

        Raises:
            ToolDeclarationError: a model could not call it.

        """
        declared = declaration_of(function)
        given: object = getattr(function, "__name__", "")
        self.name = name or declared.name or (given if isinstance(given, str) else "")
        if not safe(self.name):
            reason = Text(
                "the name {name!r} is not usable by models; give name= with 1 to 64 unaccented "
                "letters, digits, - or _",
                {"name": self.name},
            )
            raise ToolDeclarationError(function=name_of(function), reason=reason)
        self._function, self._signature = function, read_signature(function)
        self._language: Language = language
        self._save, self._late, self._pool = save, late, pool
        self._awaited = _awaits(function)
        self._reports: set[asyncio.Task[None]] = set()
        self.spec = ToolSpec(
            name=self.name,
            description=declared.description or _docstring(function),
            input_schema=self._signature.schema,
        )

    def bind(self, arguments: Mapping[str, object]) -> Launch:
        """What will run; the arguments are copied now.

        Raises:
            InvalidArgumentsError: they do not fit the schema; the message says how to correct them.

        """
        signature = self._signature
        try:
            given = signature.read(arguments)
        except ValidationError as error:
            names = tuple(signature.fields.values())
            raise InvalidArgumentsError(refusal(self._language, self.name, names, error)) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentsError(not_json(self._language, self.name)) from error
        return partial(self._launch, given)

    async def _launch(self, given: Mapping[str, object], context: ToolContext) -> ToolOutput:
        contexts = dict.fromkeys(self._signature.contexts, context)
        if self._awaited:
            result = await _contained(self._function(**given, **contexts))
            if type(result) is str:
                return ToolOutput((TextBlock.of(result),))
            return await self._output(result, context)
        call = partial(self._function, **given, **contexts)
        late = None if self._late is None else partial(self._came_late, self._late, context)
        return await self._finished(
            await (self._pool or shared()).run(self._work(call), late), context
        )

    def _work(self, call: Callable[[], object]) -> Callable[[], object]:
        """The call and the reading of its result, both in the thread."""

        def work() -> object:
            result = call()
            if inspect.isawaitable(result):
                return result
            return Made(parts_of(result, self._language))

        return work

    async def _finished(self, result: object, context: ToolContext) -> ToolOutput:
        """Output of a thread, which may have made something that only a loop can run."""
        if isinstance(result, Made):
            return await self._kept(result.parts, context)
        return await self._output(await _contained(result), context)

    async def _output(self, result: object, context: ToolContext) -> ToolOutput:
        return await self._kept(parts_of(result, self._language), context)

    async def _kept(self, parts: tuple[Part, ...], context: ToolContext) -> ToolOutput:
        blocks: list[ContentBlock] = []
        for part in parts:
            if isinstance(part, str):
                blocks.append(TextBlock.of(part))
            elif self._save is None:
                raise ToolResultUnreadableError(unreadable(self._language, "no_storage"))
            else:
                uri = await self._save(context, part.data, part.media_type)
                blocks.append(ImageBlock(uri=uri, media_type=part.media_type))
        return ToolOutput(tuple(blocks))

    def _came_late(
        self, late: Late, context: ToolContext, outcome: Returned[object] | Raised
    ) -> None:
        if isinstance(outcome, Raised):
            late(context, outcome.error)
            return
        task = asyncio.get_running_loop().create_task(self._report(late, context, outcome.value))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _report(self, late: Late, context: ToolContext, result: object) -> None:
        try:
            output: ToolOutput | Exception = await self._finished(result, context)
        except Exception as error:  # noqa: BLE001 - the border where tools end
            output = error
        late(context, output)


async def _contained(awaitable: object) -> object:
    """Result of a coroutine; a tool that asks to leave ends itself, not the loop."""
    if not _is_awaitable(awaitable):
        return awaitable
    try:
        result: object = await awaitable
    except (SystemExit, KeyboardInterrupt) as error:
        msg = f"{type(error).__name__}: {error}"
        raise RuntimeError(msg) from error
    return result


def _is_awaitable(value: object) -> TypeGuard[Awaitable[object]]:
    # most are coroutines, which the check of an abstract class is slow to tell
    return type(value) is CoroutineType or inspect.isawaitable(value)


def _awaits(function: Callable[..., object]) -> bool:
    while isinstance(function, partial):
        function = function.func
    call: object = getattr(function, "__call__", None)  # noqa: B004 - an instance may be async
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _docstring(function: Callable[..., object]) -> str:
    if isinstance(function, partial):
        return _docstring(function.func)
    return (inspect.getdoc(function) or "").strip()
