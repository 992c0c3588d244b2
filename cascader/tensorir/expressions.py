"""A writer of expressions alone, for Tensor Expressions: a name that a function would bind by a statement becomes a let-expression."""

from __future__ import annotations

from typing import Any

from cascader.tensorir.writer import Writer


class Expressions(Writer):
    """Writes expressions. A named value becomes a let-expression around the expression that uses it."""

    def __init__(self) -> None:
        super().__init__()
        self._bound: list[tuple[Any, Any]] = []

    def bind(self, name: str, value: Any, dtype: str = "int64") -> Any:
        """A variable for the expression that :meth:`closed` ends. Indices and shifts are not bound, but stay expressions.

        TVM looks for their bounds, and TVM 0.27 stops if it finds two bounds for one bound shift.
        """
        if dtype == "int32" or name in {"index", "shift"}:
            return value
        variable = self.tvm.tirx.Var(name, dtype)
        self._bound.append((variable, value))
        return variable

    def closed(self, expression: Any) -> Any:
        """The expression with all the values that were bound for it, each computed once."""
        while self._bound:
            variable, value = self._bound.pop()
            expression = self.tvm.tirx.Let(variable, value, expression)
        return expression

    def cast(self, dtype: str, value: Any) -> Any:
        """``value``, which may be an element of a tensor expression, as ``dtype``."""
        return value.astype(dtype)
