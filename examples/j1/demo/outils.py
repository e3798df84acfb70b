"""A calculator that reads arithmetic and runs nothing else."""

import ast
import math
import operator

from loom_ia.tools import ToolError, tool

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}
SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-"})
UNREADABLE = (SyntaxError, ArithmeticError, LookupError, TypeError, ValueError)
TOO_DEEP = (RecursionError, MemoryError)


@tool(side_effects="none")
def calculer(expression: str) -> dict[str, float]:
    """Calcule une expression : nombres, + - * / et parenthèses."""
    try:
        value = value_of(ast.parse(expression.translate(SIGNS), mode="eval").body)
    except (*UNREADABLE, *TOO_DEEP) as error:
        message = f"expression illisible : {expression[:80]}"
        raise ToolError(message) from error
    if not math.isfinite(value):
        message = f"résultat trop grand : {expression[:80]}"
        raise ToolError(message)
    return {"resultat": value}


def value_of(node: ast.expr) -> float:
    """Value of the expression at a node."""
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        return node.value
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](value_of(node.operand))
    raise TypeError(type(node).__name__)
