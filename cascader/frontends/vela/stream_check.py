"""Whether what Vela emits keeps to the network's tensors: bounds of every access, and bytes that nobody wrote.

Both of Vela's cores emit wrong streams for some networks. Such a stream reads another tensor's bytes or garbage, so that its
outputs, and any schedule made of it, are wrong. Bytes that are wrong within a tensor's bounds only a run beside LiteRT shows.
"""

from __future__ import annotations

from cascader.frontends.vela.allocations import StrayAccess, stray_accesses
from cascader.frontends.vela.debug_database import read_tables
from cascader.frontends.vela.known_faults import known_fault
from cascader.frontends.vela.naming import named_network
from cascader.frontends.vela.results import VelaResult
from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.unwritten import unwritten_reads
from npu_model.errors import InputError
from npu_model.program import KernelOperation, PoolKind
from npu_model.weight_stream.work import stream_work


def _stray_text(access: StrayAccess) -> str:
    """Clause that names a wrong access, without its end."""
    verb = "writes" if access.operand == "OFM" else "reads"
    where = f"layer {access.layer!r} ({access.mnemonic}, operation {access.operation})"
    tensor = access.tensor
    theirs = "where no tensor lies" if tensor is None else f"but its tensor {tensor.tensor!r} has {tensor.start} to {tensor.end}"
    return f"{where} {verb} bytes {access.span.start} to {access.span.end} of the arena as its {access.operand}, {theirs}"


def _lost_rows(network: CompiledNetwork) -> str:
    """A sum over channels that is not one element for each position: Vela 5.2's C++ core drops rows where the axis is dropped."""
    for program in network.programs:
        for number, operation in enumerate(program.operations):
            if isinstance(operation, KernelOperation) and operation.pool is PoolKind.REDUCE_SUM:
                ifm, ofm = operation.ifm.shape, operation.ofm.shape
                if (ofm.height, ofm.width, ofm.depth) != (ifm.height, ifm.width, 1):
                    where = f"layer {program.name(number)!r} ({operation.mnemonic}, operation {number})"
                    return f"{where} sums the channels of {ifm} elements into {ofm}, not into one for each position"
    return ""


def _other_weights(network: CompiledNetwork) -> str:
    """A stream that holds other weights than its kernel needs.

    So Vela 5.2's Python core makes an average over 4 columns of a row that steps over 4 of them.
    """
    try:
        for program in network.programs:
            stream_work(program, accelerator(program.accelerator))
    except InputError as error:
        clause = str(error).partition(";")[0]
        return f"{clause[:1].lower()}{clause[1:]}"
    return ""


def stream_fault(network: CompiledNetwork, database: str = "") -> str:
    """The first wrong access of a compilation, a sum over channels of the wrong shape, or other weights than needed, as a clause.

    It names the layer, or the stream of weights; it is "" if nothing is wrong.

    ``database`` is the text of Vela's debug database; without its table of tensors (the Python core has none) only reads of unwritten
    bytes are found.
    """
    stray = next(stray_accesses(network, read_tables(database)), None)
    if stray is not None:
        return _stray_text(stray)
    unwritten = next(unwritten_reads(network), None)
    return (_lost_rows(network) or _other_weights(network)) if unwritten is None else unwritten.text


def checked_network(result: VelaResult, model: bytes) -> CompiledNetwork:
    """The decoded compilation of ``model``; InputError that names Vela's core, the layer and the access if its stream is wrong."""
    network = named_network(result)
    fault = known_fault(model, result.core, result.version) or stream_fault(network, result.database)
    if fault:
        raise InputError(f"Vela {result.version}'s {result.core} core emits a wrong stream: {fault}; change that part of the network.")
    return network
