"""From an agent's description to what drives it: a plan, and the ports it may touch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from loom_ia.core.model import ModelSpec, ToolSpec
from loom_ia.core.plan import Plan, ToolPlan
from loom_ia.core.ports import Artifacts, Model, Tool, ToolContext
from loom_ia.core.wording import Language, say
from loom_ia.engine.world import World
from loom_ia.tools.decorator import Declaration
from loom_ia.tools.python import PythonFunctionTool

if TYPE_CHECKING:
    from loom_ia.agents.spec import AgentSpec, PythonTool
    from loom_ia.core.templates import Template
