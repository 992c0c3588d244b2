"""A writer of TensorIR functions, statement by statement: parameters, loops, conditions, bindings, stores and calls.

Nodes are built directly, so no text is parsed: a network of a hundred parts is written in a fraction of a second, and no content of a file
is ever evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from cascader.tensorir.compat import Tvm, load


class Writer:
    """A function under construction. Statements go into the innermost open ``with`` block."""

    def __init__(self) -> None:
        self.tvm: Tvm = load()
        self._parameters: list[Any] = []
        self._levels: list[list[Any]] = [[]]

    def pointer(self, name: str, dtype: str, elements: int) -> Any:
        """A parameter that points to ``elements`` of ``dtype``, as a buffer."""
        buffer = self.tvm.tirx.decl_buffer((max(elements, 1),), dtype, f"{name}_elements")
        self._emit(self.tvm.tirx.DeclBuffer(buffer, data=self.address(name, dtype)))
        return buffer

    def address(self, name: str, dtype: str = "uint8") -> Any:
        """A parameter that is the address of bytes, or of elements of ``dtype``. The function passes it on with an offset."""
        ir = self.tvm.tvm.ir
        return self._parameter(self.tvm.tirx.Var(name, ir.PointerType(ir.PrimType(dtype))))

    def integer(self, name: str) -> Any:
        """A parameter of type int32."""
        return self._parameter(self.tvm.tirx.Var(name, "int32"))

    def tensor(self, name: str, dtype: str, shape: Sequence[int]) -> Any:
        """A parameter that is a tensor of the runtime, for a function that outside callers use."""
        return self._parameter(self.tvm.tirx.decl_buffer(shape, dtype, name))

    def allocate(self, name: str, dtype: str, shape: Sequence[int], scope: str) -> Any:
        """A buffer that the function allocates."""
        buffer = self.tvm.tirx.decl_buffer(shape, dtype, name, scope=scope)
        self._emit(self.tvm.tirx.AllocBuffer(buffer))
        return buffer

    @contextmanager
    def loop(self, name: str, extent: Any, start: Any = 0) -> Iterator[Any]:
        """A serial loop over ``extent`` values from ``start``; it yields its variable."""
        tirx = self.tvm.tirx
        variable = tirx.Var(name, "int32")
        self._levels.append([])
        yield variable
        self._emit(tirx.For(variable, start, extent, tirx.ForKind.SERIAL, self._block()))

    @contextmanager
    def nest(self, bounds: Sequence[tuple[str, Any, Any]]) -> Iterator[list[Any]]:
        """Open nested loops, each with a name, a start and an extent; the block gets their variables."""
        with ExitStack() as loops:
            yield [loops.enter_context(self.loop(name, extent, start)) for name, start, extent in bounds]

    @contextmanager
    def when(self, conditions: list[Any]) -> Iterator[None]:
        """Statements that run if all ``conditions`` hold; without conditions they always run."""
        tirx = self.tvm.tirx
        if not conditions:
            yield
            return
        self._levels.append([])
        yield
        condition = conditions[0] if len(conditions) == 1 else tirx.all(*conditions)
        self._emit(tirx.IfThenElse(condition, self._block(), None))

    def bind(self, name: str, value: Any, dtype: str = "int64") -> Any:
        """A named value of ``dtype``, which is computed once."""
        variable = self.tvm.tirx.Var(name, dtype)
        self._emit(self.tvm.tirx.Bind(variable, value))
        return variable

    def store(self, buffer: Any, index: Any, value: Any) -> None:
        """Write one element; ``index`` is a list if the buffer has several axes."""
        self._emit(self.tvm.tirx.BufferStore(buffer, value, index if isinstance(index, list) else [index]))

    def call(self, function: Any, *arguments: Any) -> None:
        """Call another function of the module."""
        self._emit(self.tvm.tirx.Evaluate(self.tvm.tvm.ir.Call(function, list(arguments), ret_ty="void")))

    def offset(self, address: Any, offset: int) -> Any:
        """``address`` moved by ``offset`` bytes."""
        return self.tvm.tirx.handle_add_byte_offset(address, offset)

    def address_of(self, buffer: Any) -> Any:
        """Address of a buffer's first element, at TVM's final place (which ``buffer.data`` does not follow).

        TVM shrinks a buffer to the elements that a function visibly uses, so a function that passes on the address must use all elements
        itself.
        """
        return self.tvm.tirx.address_of(buffer[0])

    def cast(self, dtype: str, value: Any) -> Any:
        """``value`` as ``dtype``; integers keep their low bits."""
        return self.tvm.tirx.Cast(dtype, value)

    def constant(self, value: int, dtype: str = "int64") -> Any:
        """A literal."""
        return self.tvm.tirx.const(value, dtype)

    def select(self, condition: Any, yes: Any, no: Any) -> Any:
        """``yes`` or ``no``; both are computed."""
        return self.tvm.tirx.Select(condition, yes, no)

    def function(self, *, public: str = "", no_alias: bool = False) -> Any:
        """The function. The runtime finds it by the name ``public``; ``no_alias`` says that no parameters overlap."""
        made = self.tvm.tirx.PrimFunc(self._parameters, self._block())
        if public:
            made = made.with_attr("global_symbol", public)
        return made.with_attr("tirx.noalias", True) if no_alias else made

    def _parameter(self, made: Any) -> Any:
        self._parameters.append(made)
        return made

    def _emit(self, statement: Any) -> None:
        self._levels[-1].append(statement)

    def _block(self) -> Any:
        statements = self._levels.pop()
        tirx = self.tvm.tirx
        if not statements:
            return tirx.Evaluate(0)
        return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
