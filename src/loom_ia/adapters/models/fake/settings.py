"""What `params` of a fake model may say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.adapters.models.fake.model import FakeModel
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.script import Turn


class Settings(BaseModel):
    """The script of a fake model; one entry for each model turn of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    script: tuple[Turn, ...] = Field(min_length=1)
    """What it says at each turn: `text`, `tool_calls`, `error`, `delay` in seconds."""

    @asynccontextmanager
    async def open(self, env: object, spec: ModelSpec) -> AsyncGenerator[FakeModel]:  # noqa: ARG002 - it needs neither
        """The model of this script."""
        yield FakeModel(self.script)
