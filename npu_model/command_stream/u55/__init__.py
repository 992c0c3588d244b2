"""The commands of the Ethos-U55 and the Ethos-U65: operations from registers and back."""

from npu_model.command_stream.registers import Cmd0 as Short
from npu_model.command_stream.registers import Cmd1 as Long
from npu_model.command_stream.u55.decode import KINDS as KERNELS
from npu_model.command_stream.u55.decode import decode_kernel, decode_transfer
from npu_model.command_stream.u55.encode import set_kernel, set_transfer
from npu_model.command_stream.writer import NARROW as WIDTHS

__all__ = ["KERNELS", "WIDTHS", "Long", "Short", "decode_kernel", "decode_transfer", "set_kernel", "set_transfer"]
