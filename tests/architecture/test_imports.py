"""What the kernel brings into a process, and what it may not touch at all."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
CORE = SOURCE / "loom_ia" / "core"

LIBRARIES = {
    "pydantic": {"annotated_types", "pydantic_core", "typing_extensions", "typing_inspection"},
    "yaml": {"_yaml", "_cython", "cython_runtime"},
    # idna is not required by jsonschema, which loads it when it is there.
    "jsonschema": {"attr", "attrs", "idna", "jsonschema_specifications", "referencing", "rpds"},
}
ALLOWED = {"loom_ia", *LIBRARIES, *(name for group in LIBRARIES.values() for name in group)}

IMPURE_MODULES = {"asyncio", "logging", "os", "pathlib", "random", "socket", "time"} | {
    "secrets",
    "subprocess",
    "tempfile",
    "threading",
}
IMPURE_CALLS = {
    *("date.today", "datetime.now", "datetime.today", "datetime.utcnow"),
    *("uuid.uuid1", "uuid.uuid4", "uuid1", "uuid4"),
    *("input", "open", "print", "__import__", "importlib.import_module", "import_module"),
}

LISTING = """
import sys
before = set(sys.modules)
import loom_ia.core, loom_ia.engine
print("\\n".join(sorted(set(sys.modules) - before)))
"""


def loaded_by_the_kernel() -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LISTING], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def root(module: str) -> str:
    name = module.partition(".")[0]
    for prefix in ("_cython", "_sysconfigdata"):  # followed by a version or a platform
        if name.startswith(prefix):
            return prefix
    return name


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def calls(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.lineno, ast.unparse(node.func)


def test_the_kernel_loads_the_standard_library_pydantic_yaml_and_jsonschema_only():
    loaded = loaded_by_the_kernel()
    assert {"loom_ia.core", "loom_ia.engine"} <= loaded
    standard = sys.stdlib_module_names | {"_sysconfigdata"}
    assert {root(name) for name in loaded} - standard - ALLOWED == set()


def test_core_imports_nothing_that_reads_or_changes_the_world():
    paths = sorted(CORE.rglob("*.py"))
    assert paths
    assert [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in paths
        for line, name in imports(path)
        if root(name) in IMPURE_MODULES
    ] == []


def test_core_calls_no_clock_no_chance_and_no_file():
    assert [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in sorted(CORE.rglob("*.py"))
        for line, name in calls(path)
        if name in IMPURE_CALLS or name.removeprefix("datetime.") in IMPURE_CALLS
    ] == []


def test_no_import_is_relative():
    assert [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in imports(path)
        if name.startswith(".")
    ] == []


def test_the_neutral_contracts_know_no_engine():
    assert [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in sorted((SOURCE / "loom").rglob("*.py"))
        for line, name in imports(path)
        if root(name) == "loom_ia"
    ] == []


def test_the_namespace_of_the_contracts_stays_open_to_other_distributions():
    assert not (SOURCE / "loom" / "__init__.py").exists()
