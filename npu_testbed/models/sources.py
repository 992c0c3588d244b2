"""Where models come from: a .tflite file, or ``zoo:NAME`` or ``portfolio:NAME`` for a network that the package builds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from npu_model.brief import Brief
from npu_model.errors import InputError, did_you_mean
from npu_model.front import later
from npu_model.printable import shown, text_of
from npu_testbed.models.input_shapes import InputShape, ShapedSource
from npu_testbed.models.layouts import ChannelsLast
from npu_testbed.models.te_models import is_te, refuse_te
from validation.reading import read_file

with later():
    from npu_testbed.models import changed_models  # Few models are read with another shape or order of axes.
    from validation import portfolio, zoo  # Only users of numpy pay for its start-up.

ZOO, PORTFOLIO = BUILT = "zoo:", "portfolio:"
"""Prefix of the name of a network that the package builds."""


class Model(Brief, frozen=True):
    """A model file: its name without folder (or ``zoo:NAME``, ``portfolio:NAME``) and its bytes."""

    unshown = ("data",)

    name: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Hash of the bytes."""
        return sha256(self.data).hexdigest()


def load_model(source: str) -> Model:
    """The model of ``source``, with the changes of a :class:`ShapedSource`; InputError if there is none."""
    model = _load(str(source))
    return replace(model, data=_changed(model.data, source.shapes, source.layouts)) if isinstance(source, ShapedSource) else model


@lru_cache(maxsize=4)  # LiteRT computes it in a process of its own, and a command may read a model more than once.
def _changed(data: bytes, shapes: tuple[InputShape, ...], layouts: tuple[ChannelsLast, ...]) -> bytes:
    return changed_models.changed(data, shapes, layouts) if shapes or layouts else data


def as_recorded(model: str, nhwc: Sequence[str]) -> str:
    """The source of a model with the layouts that a file made from it records; requested layouts stay."""
    said = model if isinstance(model, ShapedSource) else ShapedSource(model)
    return ShapedSource(model, said.shapes, [ChannelsLast(name) for name in nhwc]) if nhwc and not said.layouts else model


def recorded_source(model: str, nhwc: Sequence[str]) -> str | None:
    """The source of the network that a schedule records, with its recorded layouts; None if the package does not build the network."""
    return as_recorded(model, nhwc) if model.startswith(BUILT) else None


def _load(source: str) -> Model:
    if source.startswith(ZOO):
        return Model(source, zoo.build(source.removeprefix(ZOO)))
    if source.startswith(PORTFOLIO):
        return Model(source, portfolio.build(source.removeprefix(PORTFOLIO)))
    if is_te(source):
        raise refuse_te(source)
    _require_convertible(source)
    _require_no_built_name(source)
    data = read_file(source, "Model")
    if data.startswith(_TVM_JSON):
        raise InputError(
            f"{Path(source).name!r} is a module that TVM has saved as JSON, whose loops are no longer Tensor Expressions: "
            "give the function that makes them, as GRAPH.py:FUNCTION."
        )
    return Model(text_of(Path(source).name), data)


_TVM_JSON = b'{"root_index":'
"""First characters of a file from ``tvm.ir.save_json`` (0.26 and 0.27)."""

_CONVERTERS = {
    ".onnx": "convert it with `onnx2tf -i MODEL.onnx -oiqt`, whose *_full_integer_quant.tflite is what to give",
    ".h5": "convert it with tf.lite.TFLiteConverter.from_keras_model(keras.models.load_model(MODEL)), quantised to int8",
    ".pt2": "lower it with ExecuTorch's Arm backend (EthosUPartitioner) and give the .pte, or with litert-torch and give the .tflite",
}
_CONVERTERS |= {".keras": _CONVERTERS[".h5"], ".hdf5": _CONVERTERS[".h5"], ".pt": _CONVERTERS[".pt2"], ".pth": _CONVERTERS[".pt2"]}
"""The converter for another framework's file, by its ending."""


def _require_no_built_name(source: str) -> None:
    """InputError for a missing path that is nearly the name of a built network."""
    if Path(source).exists():
        return
    names = [*(ZOO + name for name in zoo.zoo_names()), *(PORTFOLIO + network.name for network in portfolio.NETWORKS)]
    near = did_you_mean(ZOO + source, names) or did_you_mean(PORTFOLIO + source, names)
    if near:
        raise InputError(f"Model {shown(source)} is not a file{near}: give the path of a readable file, zoo:NAME or portfolio:NAME.")


def _require_convertible(source: str) -> None:
    """InputError, with the converter's command line, for an existing file of another framework."""
    how = _CONVERTERS.get(Path(source).suffix.lower())
    if how is not None and Path(source).is_file():
        raise InputError(f"{Path(source).name!r} is not a TFLite network: {how}.")
