"""Agents as a configuration describes them."""

from loom_ia.agents.spec import AgentSpec, MainRole, PythonTool

__all__ = ("AgentSpec", "MainRole", "PythonTool")
