"""The import paths that users rely on stay where they are."""

from importlib import import_module

import pytest

PINNED = {
    "loom_ia.access": ("Loom",),
    "loom_ia.agents": ("AgentSpec", "MainRole", "PolicyHook", "PythonTool"),
    "loom_ia.config": ("LoomConfig",),
    "loom_ia.core.events": ("Event",),
    "loom_ia.core.model": ("Discard", "ModelSpec", "TextDelta"),
    "loom_ia.core.ports": ("ToolContext",),
    "loom_ia.policies": (
        "CONTINUE",
        "BeforeTool",
        "Decision",
        "Deny",
        "Fail",
        "Pause",
        "PolicyContext",
        "Replace",
        "policy",
    ),
    "loom_ia.telemetry": ("configure_logging",),
    "loom_ia.testing": ("ScriptedModel",),
    "loom_ia.tools": ("ToolError", "idempotent", "tool"),
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in PINNED.items() for name in names]
)
def test_a_pinned_path_gives_its_object(module: str, name: str):
    package = import_module(module)
    assert getattr(package, name) is not None
    assert name in package.__all__


@pytest.mark.parametrize("module", PINNED)
def test_a_public_package_fixes_what_it_exports(module: str):
    exported = import_module(module).__all__
    assert isinstance(exported, tuple)
    assert all(hasattr(import_module(module), name) for name in exported)
