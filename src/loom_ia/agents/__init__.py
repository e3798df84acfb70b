"""Agents as a configuration describes them."""

from loom_ia.agents.spec import (
    AgentSpec,
    ApprovalSection,
    ContractSection,
    ExposeSection,
    MainRole,
    McpTools,
    OutputSection,
    PolicyHook,
    PythonTool,
    RepairSection,
)

__all__ = (
    "AgentSpec",
    "ApprovalSection",
    "ContractSection",
    "ExposeSection",
    "MainRole",
    "McpTools",
    "OutputSection",
    "PolicyHook",
    "PythonTool",
    "RepairSection",
)
