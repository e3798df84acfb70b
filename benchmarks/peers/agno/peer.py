"""agno: an agent on a scripted model; with a database it keeps a run at its end, so it has no D."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from jobs import Run, Task, main


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@dataclass
class Scripted(Model):
    """Asks for calls, then answers."""

    id: str = "scripted"
    turns: int = 0
    delay: float = 0.0

    def invoke(self, *_: object, **__: object) -> ModelResponse:
        raise NotImplementedError

    async def ainvoke(self, messages: list[Message], **_: object) -> ModelResponse:
        if self.delay:
            await asyncio.sleep(self.delay)
        turn = sum(message.role == "assistant" for message in messages)
        if turn == self.turns:
            return ModelResponse(role="assistant", content="done")
        function = {"name": "add", "arguments": json.dumps({"a": turn, "b": 1})}
        call = {"id": f"c{turn}", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])

    def invoke_stream(self, *_: object, **__: object) -> Iterator[ModelResponse]:
        raise NotImplementedError

    def ainvoke_stream(self, *_: object, **__: object) -> AsyncIterator[ModelResponse]:
        raise NotImplementedError

    def _parse_provider_response(self, response: ModelResponse, **_: object) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: ModelResponse) -> ModelResponse:
        return response


@asynccontextmanager
async def opening(task: Task) -> AsyncGenerator[Run]:
    """The agent, made once."""
    model = Scripted(turns=task.turns, delay=task.delay)
    agent = Agent(model=model, tools=[add], system_message="You help.", telemetry=False)

    async def run() -> None:
        result = await agent.arun("hi")
        assert result.content == "done", result

    yield run


main(opening, "BCF")
