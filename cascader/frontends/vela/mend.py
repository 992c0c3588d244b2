"""Mended kernels: fully connected layers that round once, and copies that keep all bits of unsigned bytes.

LiteRT's reference kernels scale the sums of an 8-bit (int8 or uint8) FULLY_CONNECTED with one rounding, and the sums of a convolution with
two. Vela 5.2.0 lowers both to the same kernel and gives it the rounding of the convolution, so that single output bytes differ by 1. The
NPU has both roundings (field of OFM_PRECISION); changing that one field changes no address, no weight and no cycle. A 16-bit layer cannot
be mended: LiteRT multiplies its sums by 32 bits, the NPU's 40-bit sums only by 16. Those layers are named.

Vela 5.2.0 lowers a TRANSPOSE to average poolings of single elements. For uint8 tensors it makes the maps int8, so results are clamped at 0.
The range of the activation is one field. With the full range, and zero points of 0, such a kernel moves bytes unchanged.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from cascader.frontends.vela.debug_database import by_command, named_network, read_tables, source_operators, table
from cascader.frontends.vela.result import VelaResult
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import ActivationKind, Kernel, KernelOperation, Operation, OperationKind, PoolKind, Program, Rounding
from npu_model.tflite.model import TfliteModel, model_of

FULLY_CONNECTED = "FULLY_CONNECTED"
_SCHEDULED_AS = ("FullyConnected", "Conv2DBias")
"""Vela's names for a FULLY_CONNECTED that it runs, in the ``perf`` table of its debug database (Python core: ``optimised``).

The second name is the Python core's for an operator that keeps its input's dimensions, such as Keras' Dense of a sequence.
"""

_MENDED_BITS = 8


class Mended(Struct, frozen=True):
    """A compiled network after mending.

    ``layers`` names the layers with a mended kernel, ``unmended`` the 16-bit fully connected layers, both in order of execution.
    """

    network: CompiledNetwork
    layers: tuple[str, ...]
    unmended: tuple[str, ...] = ()


def fully_connected_offsets(database: str, model: TfliteModel) -> tuple[frozenset[int], ...]:
    """For every command stream in order: byte offsets of the kernel commands that run a FULLY_CONNECTED of ``model``.

    ``database`` is the text of Vela's debug database. Two of its tables must agree: the operator that Vela scheduled is a fully connected
    one, and so is its source in the .tflite file. An LSTM's gates or a batched product fail the second condition. Kernels that Vela adds
    around a fully connected operator (copies, tables) fail the first.
    """
    tables = read_tables(database)
    sources = {key for key, operator in source_operators(tables, model).items() if operator.code == FULLY_CONNECTED}
    name, key = ("perf", "scheduled_id") if "perf" in tables else ("optimised", "optimised_id")
    rows = table(tables, name).columns("id", "operator", "source_id")
    scheduled = {number for number, operator, source in rows if operator in _SCHEDULED_AS and source in sources}
    return tuple(frozenset(offset for offset, number in one.items() if number in scheduled) for one in by_command(tables, key))


def _rounded_once(operation: KernelOperation) -> KernelOperation:
    """The kernel of a fully connected operator with LiteRT's rounding. A 16-bit kernel has natural rounding only."""
    if operation.kind is OperationKind.CONV_2D and operation.ifm.dtype.bits == _MENDED_BITS and operation.rounding is Rounding.DOUBLE:
        return replace(operation, rounding=Rounding.NATURAL)
    return operation


def _mend(program: Program, offsets: frozenset[int], layers: dict[bool, dict[str, None]]) -> Program:
    """``program`` with the kernels at these byte offsets rounded once.

    Their layers are added to ``layers``: True if mended, False if left.
    """
    operations = list(program.operations)
    for (index, offset), operation in zip(program.kernel_offsets.items(), program.kernels, strict=True):
        if offset in offsets:
            operations[index] = mended = _rounded_once(operation)
            layers[mended is not operation][program.name(index)] = None
    return replace(program, operations=tuple(operations))


def mended_network(result: VelaResult, model: bytes, decoded: CompiledNetwork | None = None) -> Mended:
    """Decode a compilation of ``model``, unless it is ``decoded``, and round its 8-bit fully connected layers once.

    A compilation without a debug database is left unchanged. It raises the InputErrors of :func:`named_network`.
    """
    network = named_network(result) if decoded is None else decoded
    streams = iter(fully_connected_offsets(result.database, model_of(model)))
    layers: dict[bool, dict[str, None]] = {True: {}, False: {}}
    steps = [_mend(step, next(streams, frozenset()), layers) if isinstance(step, Program) else step for step in network.steps]
    return Mended(replace(network, steps=tuple(steps)), tuple(layers[True]), tuple(layers[False]))


def _moves_signed_bytes(operation: KernelOperation) -> bool:
    ifm, ofm = operation.ifm, operation.ofm
    return (
        operation.pool is PoolKind.AVERAGE
        and operation.kernel == Kernel()
        and operation.activation.kind is ActivationKind.NONE
        and ifm.dtype == ofm.dtype
        and ifm.dtype.signed
        and ifm.dtype.bits == 8  # bytes
        and (ifm.shape, ifm.zero_point) == (ofm.shape, ofm.zero_point)
    )


def _whole(operation: Operation) -> Operation:
    if not isinstance(operation, KernelOperation) or not _moves_signed_bytes(operation):
        return operation
    activation = replace(operation.activation, minimum=operation.ofm.dtype.minimum, maximum=operation.ofm.dtype.maximum)
    return replace(operation, activation=activation, ifm=replace(operation.ifm, zero_point=0), ofm=replace(operation.ofm, zero_point=0))


def with_whole_bytes(network: CompiledNetwork, model: bytes) -> CompiledNetwork:
    """The ``network`` whose copies of single bytes keep all their bits.

    InputError if a tensor of the ``model`` has signed bytes: then nothing tells which bytes a kernel moves.
    """
    signed = next((tensor for tensor in model_of(model).tensors if tensor.dtype == "INT8"), None)
    if signed is not None:
        raise InputError(f"Tensor {signed.name!r} has signed bytes: copies of unsigned ones are mended in models without any.")
    steps = (replace(step, operations=tuple(map(_whole, step.operations))) if isinstance(step, Program) else step for step in network.steps)
    return replace(network, steps=tuple(steps))
