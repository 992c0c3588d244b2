"""The register command stream: driver payload and words to operations and back."""

from npu_model.command_stream.decode import decode_words, decoded
from npu_model.command_stream.encode import encode_operations
from npu_model.command_stream.payload import COP_FORMATS, Payload, build_payload, build_second, parse_payload

__all__ = [
    "COP_FORMATS",
    "Payload",
    "build_payload",
    "build_second",
    "decode_words",
    "decoded",
    "encode_operations",
    "parse_payload",
]
