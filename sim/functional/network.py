"""Bit-exact execution of a compiled network: its Programs and CPU operators in one arena, from inputs to outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.compiled.network import COPIES, CompiledNetwork, CpuOperator, initial_byte
from npu_model.errors import InputError
from npu_model.program import Binding, ConstantOutput, RegionRole, in_order
from sim.functional.copies import is_copy
from sim.functional.execute import OnOperation, execute
from sim.functional.filters import FilterCache
from sim.functional.memory import RegionBytes
from sim.functional.regions import Regions, Store, home_stores, numpy_dtype

Array = NDArray[Any]

OnCpu = Callable[[int, CpuOperator, tuple[Array, ...]], Sequence[Array]]
"""Function that executes a CPU operator, given its step in the network.

It takes the arrays of the inputs, in order. It returns the arrays of the outputs, and then the final arrays of inputs that are variables.
"""

OnProgram = Callable[[int, Regions], None]
"""Callback before a Program runs, with its number and the memory."""


class NetworkState:
    """The bytes of a network's variables between inferences; :func:`initial_byte` gives it before the first.

    Resource variables begin with their own content. Nothing else is kept: every inference begins with an arena whose other bytes have never
    been written.
    """

    def __init__(self, network: CompiledNetwork) -> None:
        self._arrays = {binding: self._initial(binding) for binding in network.variables}
        self._resources = {variable.name: variable.content for variable in network.resources}

    def copy(self, operator: CpuOperator, arena: Regions) -> None:
        """Read a resource variable into the arena, or assign it from there; InputError if it has another size."""
        if operator.resource not in self._resources:
            raise InputError(f"{operator.code} names the resource variable {operator.resource!r}, which the network does not have.")
        for binding in operator.outputs:
            content = self._resources[operator.resource]
            if len(content) != binding.size:
                raise InputError(f"{operator.code} reads {binding.size} bytes of {operator.resource!r}, which has {len(content)}.")
            arena.place(binding, np.frombuffer(content, numpy_dtype(binding.dtype)).reshape(binding.shape))
        for binding in operator.inputs:
            self._resources[operator.resource] = arena.fetch(binding, operator.code).tobytes()

    @staticmethod
    def _initial(binding: Binding) -> Array:
        zero_point = binding.quantisation.zero_point if binding.quantisation else 0
        filled = np.full(binding.size, initial_byte(binding.dtype, zero_point), np.uint8)
        return filled.view(numpy_dtype(binding.dtype)).reshape(binding.shape)

    def restore(self, arena: Regions) -> None:
        """Write the variables into ``arena``."""
        for binding, array in self._arrays.items():
            arena.place(binding, array)

    def keep(self, arena: Regions) -> None:
        """Keep the variables of ``arena``; InputError if a variable was not written completely."""
        for binding in self._arrays:
            self._arrays[binding] = arena.fetch(binding, "Variable")


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


def _run_on_cpu(index: int, operator: CpuOperator, arena: Regions, variables: tuple[Binding, ...], on_cpu: OnCpu | None) -> None:
    if is_copy(operator):
        arena.move(operator.inputs[0], operator.outputs[0])
        return
    outputs = ", ".join(repr(binding.name) for binding in operator.outputs)
    if on_cpu is None:
        raise InputError(
            f"The network runs {operator.code} on the CPU (output {outputs}), which is not executed here: only {', '.join(COPIES)} are; "
            "hand in what executes it."
        )
    user = f"{operator.code} on the CPU, input"
    found = tuple(on_cpu(index, operator, tuple(arena.fetch(binding, user) for binding in operator.inputs)))
    written = operator.outputs + tuple(binding for binding in operator.inputs if binding in variables)
    sizes, needed = tuple(array.nbytes for array in found), tuple(binding.size for binding in written)
    if sizes != needed:
        raise InputError(
            f"{operator.code} (output {outputs}) gives {', '.join(map(str, sizes))} bytes on the CPU where the network has room for "
            f"{', '.join(map(str, needed))}: give the model that it was compiled from, with outputs of fixed shapes."
        )
    for binding, array in zip(written, found, strict=True):
        arena.place(binding, np.frombuffer(array.tobytes(), numpy_dtype(binding.dtype)))


def run(  # noqa: PLR0913  # inputs, and what may take part in a run or watch it
    network: CompiledNetwork,
    inputs: Mapping[str, Array] | Sequence[Array],
    on_operation: OnOperation | None = None,
    filters: FilterCache | None = None,
    on_cpu: OnCpu | None = None,
    state: NetworkState | None = None,
    on_program: OnProgram | None = None,
) -> dict[str, Array]:
    """Outputs of the network, by name, for inputs by name or in the network's order.

    ``filters`` keeps decoded weights from one run to the next, for many inputs of one network. ``on_cpu`` executes the CPU operators; mere
    copies need no such help. ``on_program`` is called before each Program with its number and the memory, so that a host can fill in
    arriving data. ``state`` carries over to the next inference; without it, this is the first one.

    Arrays have the bindings' types and element counts. InputError on other inputs, on a CPU operator without a kernel, and for the reasons
    of :func:`sim.functional.execute.execute`.
    """
    if not network.programs:
        raise InputError("The network has no NPU operator: compile it with Vela for an Ethos-U55.")
    store = Store(network.arena_size)
    homes = home_stores(network.programs)
    inside = {region.index: store for program in network.programs for region in program.regions if region.role is RegionRole.ARENA}
    arena = Regions(homes | inside)
    arrays = _by_name(network.inputs, inputs)
    kept = NetworkState(network) if state is None else state
    kept.restore(arena)
    for binding in network.inputs:
        arena.place(binding, _checked(binding, arrays[binding.name]))
    programs = itertools.count()
    for index, step in enumerate(network.steps):
        if isinstance(step, CpuOperator) and step.resource:
            kept.copy(step, arena)
            continue
        if isinstance(step, CpuOperator):
            _run_on_cpu(index, step, arena, network.variables, on_cpu)
            continue
        number = next(programs)
        if on_program is not None:
            on_program(number, arena)
        try:
            execute(step, RegionBytes(step, store, homes), on_operation, filters)
        except InputError as error:
            raise (error if len(network.programs) == 1 else InputError(f"Program {number}: {error}")) from None
    kept.keep(arena)
    written = [(binding.name, arena.fetch(binding)) for binding in network.outputs]
    constants = [(one.name, _values(one)) for one in network.constant_outputs]
    return dict(in_order(written, network.constant_outputs, constants))


def _values(constant: ConstantOutput) -> Array:
    return np.frombuffer(constant.content, numpy_dtype(constant.dtype)).reshape(constant.shape)
