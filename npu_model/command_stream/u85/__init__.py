"""The commands of the Ethos-U85: registers with the bits of their fields, operations from them and back."""

from npu_model.command_stream.u85.decode import KINDS as KERNELS
from npu_model.command_stream.u85.decode import decode_kernel, decode_transfer
from npu_model.command_stream.u85.encode import set_kernel, set_transfer
from npu_model.command_stream.u85.layout import LONGS, SHORTS, WIDTHS

__all__ = ["KERNELS", "LONGS", "SHORTS", "WIDTHS", "decode_kernel", "decode_transfer", "set_kernel", "set_transfer"]
