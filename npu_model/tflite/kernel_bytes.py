"""Kernel bytes: what a kernel of TFLite Micro takes of the arena."""

from __future__ import annotations

from msgspec import Struct


class KernelBytes(Struct, frozen=True):
    """The bytes that a kernel keeps from its start on, and its scratch buffers while it runs, each a multiple of 16.

    The kernel may do without the scratch if ``perhaps``.
    """

    kept: int = 0
    scratch: tuple[int, ...] = ()
    perhaps: bool = False
