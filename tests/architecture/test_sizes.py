"""Nothing in the source outgrows what one reads at once."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

SOURCE = Path(__file__).parents[2] / "src"
MODULE_LINES = 400
FUNCTION_LINES = 50
MEDIAN_LINES = 10
PARAMETERS = 6
PUBLIC_METHODS = 15
FACADE = "Loom"
SETTINGS = ("Settings", "Config", "Spec")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), path.read_text(encoding="utf-8")


def nodes() -> Iterator[tuple[str, ast.AST]]:
    for module, text in modules():
        for node in ast.walk(ast.parse(text)):
            yield module, node


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module, node in nodes():
        if isinstance(node, ast.ClassDef):
            yield f"{module}:{node.lineno} {node.name}", node


def functions() -> Iterator[tuple[str, Function]]:
    for module, node in nodes():
        if isinstance(node, Function):
            yield f"{module}:{node.lineno} {node.name}", node


def lines(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def stub(node: Function) -> bool:
    """Tell a signature (protocol, overload) from a function that does something."""
    last = node.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)


def parameters(node: Function) -> int:
    given = node.args
    named = [p.arg for p in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    if named and named[0] in {"self", "cls"}:
        del named[0]
    return len(named) + (given.vararg is not None) + (given.kwarg is not None)


def decorators(node: Function) -> set[str]:
    return {ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in node.decorator_list}


def public_methods(node: ast.ClassDef) -> set[str]:
    return {
        item.name
        for item in node.body
        if isinstance(item, Function)
        and not item.name.startswith("_")
        and not decorators(item) & {"property", "cached_property", "setter"}
    }


def settings_constructors() -> set[str]:
    return {
        f"{label.partition(':')[0]}:{item.lineno} {item.name}"
        for label, node in classes()
        if node.name.endswith(SETTINGS)
        for item in node.body
        if isinstance(item, Function) and item.name == "__init__"
    }


def test_there_is_source_to_measure():
    assert any(True for _ in functions())


def test_no_module_is_longer_than_400_lines():
    counts = {module: len(text.splitlines()) for module, text in modules()}
    assert {module: n for module, n in counts.items() if n > MODULE_LINES} == {}


def test_no_function_is_longer_than_50_lines():
    counts = {label: lines(node) for label, node in functions()}
    assert {label: n for label, n in counts.items() if n > FUNCTION_LINES} == {}


def test_half_of_the_functions_fit_in_10_lines():
    assert median(lines(node) for _, node in functions() if not stub(node)) <= MEDIAN_LINES


def test_no_function_takes_more_than_6_parameters():
    counts = {label: parameters(node) for label, node in functions()}
    exempt = settings_constructors()
    over = {label: n for label, n in counts.items() if n > PARAMETERS}
    assert {label: n for label, n in over.items() if label not in exempt} == {}


def test_no_class_has_more_than_15_public_methods_but_the_facade():
    counts = {label: len(public_methods(node)) for label, node in classes() if node.name != FACADE}
    assert {label: n for label, n in counts.items() if n > PUBLIC_METHODS} == {}
