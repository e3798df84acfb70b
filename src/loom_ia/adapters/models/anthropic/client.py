"""Speaks to the Messages API through the official SDK, whose own retries are off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from anthropic import APIConnectionError, APIStatusError, AsyncAnthropic, AsyncStream

from loom_ia.adapters.models.anthropic.wire import Reader, encode
from loom_ia.adapters.models.exchange import Exchange, Response, connections
from loom_ia.adapters.models.files import load
from loom_ia.adapters.models.keys import checked_key
from loom_ia.core.model import ModelChunk, ModelRequest, ModelSpec

ADDRESS = "https://api.anthropic.com"
PATH = "/v1/messages"


class AnthropicModel:
    """One model of the Messages API."""

    def __init__(self, client: AsyncAnthropic, key: str) -> None:
        self._client, self._key = client, key

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Pieces of the answer, then the answer.

        Raises:
            ModelError: there is none.

        """
        spec = request.spec
        checked_key(spec, self._key)
        body = encode(request, await load(request))
        exchange = Exchange(spec, f"{spec.base_url or ADDRESS}{PATH}", body, self._key)

        async def post() -> Response:
            try:
                stream = await self._client.post(
                    PATH, cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
                )
            except APIStatusError as error:
                raise exchange.refused(error.response) from None
            except APIConnectionError as error:
                raise exchange.unreachable(error) from None
            return stream.response

        async for chunk in exchange.run(post, Reader(spec)):
            yield chunk


@asynccontextmanager
async def connected(spec: ModelSpec, key: str) -> AsyncGenerator[AnthropicModel]:
    """A model behind its own connections."""
    client = await asyncio.to_thread(_client, spec, key)
    async with client:
        yield AnthropicModel(client, key)


def _client(spec: ModelSpec, key: str) -> AsyncAnthropic:
    """Reads certificates and settings of the SDK: blocks."""
    return AsyncAnthropic(
        api_key=key or "none",
        base_url=spec.base_url or ADDRESS,
        max_retries=0,
        timeout=None,
        http_client=connections({"x-api-key": key} if key else {}),
    )
