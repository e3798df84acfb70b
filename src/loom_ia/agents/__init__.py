"""Agents as a configuration describes them."""

from loom_ia.agents.spec import AgentSpec, MainRole, PolicyHook, PythonTool

__all__ = ("AgentSpec", "MainRole", "PolicyHook", "PythonTool")
