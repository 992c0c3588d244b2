"""Export of a compiled network: the file, the C sources and the archive for stock Ethos-U software, as bytes."""

from __future__ import annotations

from npu_model.front import front

# A compilation writes one of these formats.
with front() as __getattr__:
    from npu_model.export.c_source import StreamedRows, c_identifier, export_c
    from npu_model.export.model_library import export_mlf
    from npu_model.export.raw_file import export_raw
    from npu_model.export.tflite_file import export_tflite

__all__ = ["StreamedRows", "c_identifier", "export_c", "export_mlf", "export_raw", "export_tflite"]
