"""The register command stream: driver payload and words to operations and back."""

from npu_model.command_stream.decode import decode_words
from npu_model.command_stream.payload import Payload, parse_payload

__all__ = ["Payload", "decode_words", "parse_payload"]
