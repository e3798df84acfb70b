"""Agents as a configuration describes them."""

from loom_ia.agents.spec import AgentSpec, ApprovalSection, MainRole, PolicyHook, PythonTool

__all__ = ("AgentSpec", "ApprovalSection", "MainRole", "PolicyHook", "PythonTool")
