"""Arithmetic inside of references, ``!ref <width> * 4``, as HyperPyYAML has it, with results of bounded size."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

#: The largest whole number has so many bits.
BITS = 1024
#: The longest text that references may put together.
LONGEST = 100_000

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
}


def calculated(text: str) -> Any:
    """Return the value of a calculation with numbers; a text that is none is returned as it is.

    Raises:
        ArithmeticError: for a division by zero, a result that is too large, or a calculation that is too long.
    """
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (TypeError, SyntaxError, KeyError, ValueError):
        return text
    except (RecursionError, MemoryError) as error:
        raise OverflowError("it is too long") from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.BinOp):
        raise TypeError(node)
    left, right = _value(node.left), _value(node.right)
    _check(node.op, left, right)
    result = _OPERATIONS[type(node.op)](left, right)
    if isinstance(result, int) and result.bit_length() > BITS:
        raise OverflowError(f"the result has more than {BITS} bits")
    return result


def _check(operation: ast.operator, left: Any, right: Any) -> None:
    """Refuse what would be large before it is calculated."""
    texts = [side for side in (left, right) if isinstance(side, str | bytes)]
    if texts and isinstance(operation, ast.Mod):  # which would fill in a format
        raise TypeError(operation)
    if isinstance(operation, ast.Mult):
        count = next((side for side in (left, right) if isinstance(side, int)), 0)
        if texts and len(texts[0]) * count > LONGEST:
            raise OverflowError(f"the result has more than {LONGEST:,} characters")
    if isinstance(operation, ast.Pow) and isinstance(left, int) and isinstance(right, int):
        if right > 0 and left.bit_length() * right > 2 * BITS:
            raise OverflowError(f"the result has more than {BITS} bits")
