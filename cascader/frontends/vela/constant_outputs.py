"""Outputs that are constants: Vela 5.2's Python core drops them, its C++ core drops their values, so that it is not given them."""

from __future__ import annotations

from dataclasses import replace

from npu_model.compiled.network import constant_outputs
from npu_model.errors import InputError
from npu_model.program import ConstantOutput
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.records import SignatureRecord
from npu_model.tflite.tosa import model_of
from npu_model.tflite.writer import write_tflite


def without_constant_outputs(model: bytes) -> tuple[bytes, tuple[ConstantOutput, ...]]:
    """The .tflite ``model`` without those outputs that are constants, and these; itself if it has none, or no others.

    Operators may read the constants all the same. A TOSA network has none, as it is not read. InputError if a .tflite cannot be read.
    """
    parsed = model_of(model)
    found = constant_outputs(parsed)
    if not found or len(found) == len(parsed.outputs):
        return model, ()
    try:
        records = read_records(model)
    except InputError:  # it holds what no records can
        return model, ()
    places = {one.place for one in found}
    kept = tuple(index for place, index in enumerate(records.outputs) if place not in places)

    def named(signature: SignatureRecord) -> SignatureRecord:
        own = signature.subgraph == 0
        return replace(signature, outputs=tuple(entry for entry in signature.outputs if not own or entry[1] in kept))

    return write_tflite(replace(records, outputs=kept, signatures=tuple(map(named, records.signatures)))), found


def loss(constants: tuple[ConstantOutput, ...]) -> str:
    """The sentence that says what Vela would have lost."""
    names = ", ".join(repr(one.name) for one in constants)
    return f"Both of Vela's cores lose the values of outputs that are constants ({names}): they got the network without these."
