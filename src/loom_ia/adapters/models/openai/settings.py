"""What `params` may say to an OpenAI API: anything, it goes as it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict

from loom_ia.adapters.env import Env
from loom_ia.adapters.models.openai.client import OpenAIModel, connected
from loom_ia.core.model import ModelSpec


class Settings(BaseModel):
    """Parameters of the provider."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    @asynccontextmanager
    async def open(self, env: Env, spec: ModelSpec) -> AsyncGenerator[OpenAIModel]:
        """A model behind its own connections."""
        key = env.variables.get(spec.api_key_env, "") if spec.api_key_env else ""
        async with connected(spec, key) as model:
            yield model
