"""The register command stream: driver payload and words to operations and back."""

from npu_model.command_stream.decode import decode_words, decoded
from npu_model.command_stream.encode import encode_operations
from npu_model.command_stream.payload import Payload, build_payload, parse_payload

__all__ = ["Payload", "build_payload", "decode_words", "decoded", "encode_operations", "parse_payload"]
