"""Vela as compiler (the peer that we are compared with) and as legaliser (the front end of the cascader)."""

from cascader.frontends.vela.compiler import CORES, VelaResult, VelaSummary, compile_network
from cascader.frontends.vela.legalise import MANY_SPARED, Legalised, alternative, import_network, legalised
from cascader.frontends.vela.lift import lift
from cascader.frontends.vela.mend import Mended, mended_network
from cascader.frontends.vela.naming import named_network
from cascader.frontends.vela.stream_check import checked_network, stream_fault

__all__ = [
    "CORES",
    "MANY_SPARED",
    "Legalised",
    "Mended",
    "VelaResult",
    "VelaSummary",
    "alternative",
    "checked_network",
    "compile_network",
    "import_network",
    "legalised",
    "lift",
    "mended_network",
    "named_network",
    "stream_fault",
]
