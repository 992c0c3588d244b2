"""Reasons for the CPU operators of a compiled file. The file does not hold them, so Vela is asked about these operators alone."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from npu_model.compiled.containers import is_delegate, unpacked
from npu_model.compiled.network import CUSTOM_CODE, CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.tflite.identifiers import is_tflite
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.writer import write_tflite
from npu_testbed.models.sources import load_model

# Most files have no operator on the CPU.
with later():
    from cascader.frontends.vela import compiler, compiler_options, cpu_reasons

_COMPILERS_OWN = "OfflineMemoryAllocation"


def cpu_model(compiled: bytes) -> bytes | None:
    """The CPU operators of a compiled .tflite file as a model; None if there are none.

    Tensors from other operators are its inputs, and tensors that none of them reads are its outputs. InputError if records cannot hold
    them.
    """
    records = read_records(compiled)
    operators = tuple(one for one in records.operators if one.custom_code != CUSTOM_CODE)
    written = {index for one in operators for index in one.outputs}
    read = [index for one in operators for index in one.inputs if index >= 0]
    inputs = dict.fromkeys(index for index in read if index not in written and not records.tensors[index].data)
    outputs = dict.fromkeys(index for one in operators for index in one.outputs if index >= 0 and index not in read)
    if not operators:
        return None
    kept = tuple(entry for entry in records.metadata if entry[0] != _COMPILERS_OWN)
    # A variable counts as an input here: its bytes say nothing about where its operator runs.
    tensors = tuple(replace(tensor, is_variable=False) for tensor in records.tensors)
    bare = replace(records, operators=operators, tensors=tensors, metadata=kept, signatures=())
    return write_tflite(replace(bare, inputs=tuple(inputs), outputs=tuple(outputs)))


def with_reasons(network: CompiledNetwork, compiled: bytes) -> CompiledNetwork:
    """The ``network`` of a compiled file, with Vela's reasons for its operators on the CPU, as far as Vela has any."""
    missing = [step for step in network.steps if isinstance(step, CpuOperator) and step.reason is None]
    if not missing or is_delegate(compiled) or not is_tflite(compiled):
        return network

    # A file that Vela cannot compile is reported without reasons.
    with suppress(InputError):
        model = cpu_model(compiled)
        if model is not None:
            options = compiler_options.CompilerOptions(network.programs[0].accelerator, debug_database=False)
            return cpu_reasons.with_reasons(network, cpu_reasons.said_reasons(compiler.reasons_text(model, options)))
    return network


def with_reasons_of(network: CompiledNetwork, source: str) -> CompiledNetwork:
    """Like :func:`with_reasons` for the file ``source``, if it is a compiled one. A schedule records its reasons."""
    if any(isinstance(step, CpuOperator) and step.reason is None for step in network.steps):
        return with_reasons(network, unpacked(load_model(source).data))
    return network
