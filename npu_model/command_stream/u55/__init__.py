"""The commands of the Ethos-U55 and the Ethos-U65: operations from registers and back."""

from npu_model.command_stream.registers import Cmd0, Cmd1
from npu_model.command_stream.u55.decode import KINDS as KERNELS
from npu_model.command_stream.u55.decode import decode_kernel, decode_transfer
from npu_model.command_stream.u55.encode import set_kernel, set_transfer
from npu_model.command_stream.writer import NARROW as WIDTHS

SHORTS, LONGS = tuple(Cmd0), tuple(Cmd1)

__all__ = ["KERNELS", "LONGS", "SHORTS", "WIDTHS", "decode_kernel", "decode_transfer", "set_kernel", "set_transfer"]
