"""A calculator that reads arithmetic and runs nothing else."""

import ast
import operator

from loom_ia.tools import ToolError, tool

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


@tool(side_effects="none")
def calculer(expression: str) -> dict[str, float]:
    """Calcule une expression : nombres, + - * / et parenthèses."""
    try:
        return {"resultat": value_of(ast.parse(expression, mode="eval").body)}
    except (SyntaxError, ZeroDivisionError, KeyError, TypeError, RecursionError) as error:
        message = f"expression illisible : {expression[:80]}"
        raise ToolError(message) from error


def value_of(node: ast.expr) -> float:
    """Value of the expression at a node."""
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        return node.value
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](value_of(node.operand))
    raise TypeError(type(node).__name__)
