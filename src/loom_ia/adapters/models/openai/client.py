"""Speaks to OpenAI's APIs through the official SDK, whose own retries are off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, AsyncStream

from loom_ia.adapters.models.exchange import Exchange, Response, connections
from loom_ia.adapters.models.files import load
from loom_ia.adapters.models.keys import checked_key
from loom_ia.adapters.models.openai.wire import letter
from loom_ia.core.model import ModelChunk, ModelRequest, ModelSpec

ADDRESS = "https://api.openai.com/v1"


class OpenAIModel:
    """One model of one of the two APIs."""

    def __init__(self, client: AsyncOpenAI, key: str) -> None:
        self._client, self._key = client, key

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Pieces of the answer, then the answer.

        Raises:
            ModelError: there is none.

        """
        spec = request.spec
        checked_key(spec, self._key)
        sent = letter(request, await load(request))
        exchange = Exchange(spec, f"{spec.base_url or ADDRESS}{sent.path}", sent.body, self._key)

        async def post() -> Response:
            try:
                stream = await self._client.post(
                    sent.path,
                    cast_to=object,
                    body=sent.body,
                    stream=True,
                    stream_cls=AsyncStream[object],
                )
            except APIStatusError as error:
                raise exchange.refused(error.response) from None
            except APIConnectionError as error:
                raise exchange.unreachable(error) from None
            return stream.response

        async for chunk in exchange.run(post, sent.reader):
            yield chunk


@asynccontextmanager
async def connected(spec: ModelSpec, key: str) -> AsyncGenerator[OpenAIModel]:
    """A model behind its own connections."""
    client = await asyncio.to_thread(_client, spec, key)
    async with client:
        yield OpenAIModel(client, key)


def _client(spec: ModelSpec, key: str) -> AsyncOpenAI:
    """Reads certificates and settings of the SDK: blocks."""
    return AsyncOpenAI(
        api_key=key or "none",
        base_url=spec.base_url or ADDRESS,
        max_retries=0,
        timeout=None,
        http_client=connections({"authorization": f"Bearer {key}"} if key else {}),
    )
