"""Vela as compiler (the peer that we are compared with) and as legaliser (the front end of the cascader)."""

from cascader.frontends.vela.compiler import VelaResult, VelaSummary, compile_network
from cascader.frontends.vela.lift import import_network, lift
from cascader.frontends.vela.mend import Mended, mended_network
from cascader.frontends.vela.naming import named_network

__all__ = ["Mended", "VelaResult", "VelaSummary", "compile_network", "import_network", "lift", "mended_network", "named_network"]
