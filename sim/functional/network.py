"""Bit-exact execution of a compiled network: its Programs in one arena, between inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.compiled import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.program import Binding
from sim.functional.execute import OnOperation, execute
from sim.functional.filters import FilterCache
from sim.functional.memory import Memory, Store, numpy_dtype

Array = NDArray[Any]

_COPIES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
"""CPU operators that leave the bytes as they are."""


def _by_name(bindings: tuple[Binding, ...], inputs: Mapping[str, Array] | Sequence[Array]) -> dict[str, Array]:
    names = [binding.name for binding in bindings]
    if not isinstance(inputs, Mapping):
        if len(inputs) != len(names):
            raise InputError(f"{len(inputs)} inputs were given: the network takes {len(names)}, {', '.join(names)}.")
        return dict(zip(names, inputs, strict=True))
    wrong = sorted(set(names) ^ set(inputs))
    if wrong:
        raise InputError(f"Inputs {', '.join(map(repr, inputs))} were given: the network takes exactly {', '.join(map(repr, names))}.")
    return dict(inputs)


def _checked(binding: Binding, values: Array) -> Array:
    array = np.asarray(values)
    elements = binding.size // binding.dtype.bytes
    if array.dtype != numpy_dtype(binding.dtype) or array.size != elements:
        raise InputError(
            f"Input {binding.name!r} is given as {array.dtype} of shape {array.shape}: "
            f"the network takes {binding.dtype} of shape {binding.shape}."
        )
    return array


def _run_on_cpu(operator: CpuOperator, arena: Store) -> None:
    if operator.code not in _COPIES or len(operator.inputs) != 1 or len(operator.outputs) != 1:
        raise InputError(
            f"The network runs {operator.code} on the CPU, which is not executed here: only {', '.join(_COPIES)} are; "
            "change the network so that Vela places it on the NPU."
        )
    source, target = operator.inputs[0].byte_range, operator.outputs[0].byte_range
    arena.put(target.start, arena.data[source.start : source.end].copy())
    arena.written[target.start : target.end] = arena.written[source.start : source.end].copy()


def run(
    network: CompiledNetwork,
    inputs: Mapping[str, Array] | Sequence[Array],
    on_operation: OnOperation | None = None,
    filters: FilterCache | None = None,
) -> dict[str, Array]:
    """Outputs of the network, by name, for inputs by name or in the network's order.

    ``filters`` keeps decoded weights from one run to the next, for many inputs of one network.

    Arrays have the bindings' types and element counts. InputError on other inputs, on a CPU operator other than a mere
    copy, and on all that :func:`sim.functional.execute.execute` refuses.
    """
    arena = Store(network.arena_size)
    arrays = _by_name(network.inputs, inputs)
    staged = False
    memory: Memory | None = None
    for step in network.steps:
        if isinstance(step, CpuOperator):
            _run_on_cpu(step, arena)
            continue
        memory = Memory(step, arena)
        if not staged:
            for binding in network.inputs:
                memory.place(binding, _checked(binding, arrays[binding.name]))
            staged = True
        execute(step, memory, on_operation, filters)
    if memory is None:
        raise InputError("The network has no NPU operator: compile it with Vela for an Ethos-U55.")
    return {binding.name: memory.fetch(binding) for binding in network.outputs}
