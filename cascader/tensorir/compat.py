"""All differences between the supported versions of TVM (0.26 and 0.27), with one lazy import.

The other modules of this package call :func:`load` and use its result. No module imports ``tvm`` at the top, so that the cascader imports
without TVM. TVM ships no type information: its objects are ``Any``.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import shown

SRAM = "global.sram"
"""Scope of buffers in the cascade memory. Any tag after ``global`` makes TVM plan them as one arena."""

SUPPORTED = ((0, 26), (0, 27))
"""Minor versions of TVM whose names this module knows; the tests run with them."""


class Tvm(Struct, frozen=True):
    """The modules and classes of the installed TVM, each under one name."""

    version: str
    tvm: Any
    te: Any
    tirx: Any
    s_tir: Any
    ffi: Any
    arith: Any
    """Integer analysis: ``tvm.sym`` since 0.27, ``tvm.arith`` before."""
    block: Any
    """Class of a block: ``SBlock``."""
    load: Any
    """Class of an expression that reads a buffer; see :func:`buffer_of`."""
    var: Any
    call: Any
    """Class of a call of an operator, such as ``tirx.if_then_else``."""


@functools.cache
def load() -> Tvm:
    """The installed TVM; InputError if TVM is missing or its version is not supported."""
    try:
        tvm = importlib.import_module("tvm")
    except ImportError as error:
        raise InputError(
            "Apache TVM is not installed, which Tensor Expressions and TensorIR need: "
            "install the extra 'tensorir' (pip install 'npu-testbed[tensorir]')."
        ) from error
    version = str(tvm.__version__)
    if tuple(int(number) for number in version.split(".")[:2]) not in SUPPORTED:
        raise InputError(f"Apache TVM {version} is installed where 0.26 or 0.27 is needed: install 'apache-tvm>=0.26,<0.28'.")
    tirx, s_tir, ir = (importlib.import_module(f"tvm.{name}") for name in ("tirx", "s_tir", "ir"))
    # 0.27 moved the blocks from tirx to s_tir, made a load an expression of the IR, and renamed arith to sym.
    return Tvm(
        version=version,
        tvm=tvm,
        te=importlib.import_module("tvm.te"),
        tirx=tirx,
        s_tir=s_tir,
        ffi=importlib.import_module("tvm_ffi"),
        arith=importlib.import_module("tvm.sym" if hasattr(tvm, "sym") else "tvm.arith"),
        block=_either("SBlock", s_tir, tirx),
        load=ir.TensorLoad if hasattr(ir, "TensorLoad") else tirx.BufferLoad,
        var=_either("Var", ir, tirx),
        call=_either("Call", ir, tirx),
    )


def _either(name: str, *modules: Any) -> Any:
    """The class of this name from the first module that has it."""
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def buffer_of(access: Any) -> Any:
    """The buffer that a load or a region accesses: ``source`` since 0.27, ``buffer`` before."""
    return access.source if hasattr(access, "source") else access.buffer


def scope_of(buffer: Any) -> str:
    """Memory scope of a buffer, such as ``global.sram``."""
    scope = buffer.scope
    return str(scope() if callable(scope) else scope)


def shape_of(buffer: Any) -> tuple[int, ...]:
    """Shape of a buffer or tensor in elements; InputError if an extent is a variable."""
    for extent in buffer.shape:
        if not isinstance(extent, int) and not hasattr(extent, "value"):
            raise InputError(f"{shown(str(buffer.name))} has the extent {shown(str(extent))}, which is not a number: give fixed shapes.")
    return tuple(int(extent) for extent in buffer.shape)


def item_size(buffer: Any) -> int:
    """Bytes of an element of a buffer or tensor."""
    return np.dtype(str(buffer.dtype)).itemsize


def bytes_of(buffer: Any) -> int:
    """Bytes of a buffer or tensor."""
    return prod(shape_of(buffer)) * item_size(buffer)


def check_form(name: str, array: np.ndarray[Any, Any], tensor: Any) -> None:
    """Check an array; InputError if its type or shape differs from its buffer's or tensor's."""
    if array.shape != shape_of(tensor) or str(array.dtype) != str(tensor.dtype):
        raise InputError(
            f"Tensor {name!r} is {array.dtype} of {array.shape} where the graph has {tensor.dtype} of {shape_of(tensor)}: convert it."
        )


def walk(root: Any, kind: Any) -> Iterator[Any]:
    """Every node of a class (or a tuple of classes) under a statement or expression, parents before children.

    A node that is used twice appears twice.
    """
    found: list[Any] = []
    load().ffi.structural_walk(root, (kind, found.append), order="pre")
    yield from found


def rewrite(root: Any, rules: Mapping[Any, Callable[[Any], Any]]) -> Any:
    """``root`` with every node of the classes in ``rules`` replaced by the result of its rule, children first."""
    return load().ffi.structural_map(root, list(rules.items()))
