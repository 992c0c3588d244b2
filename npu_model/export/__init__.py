"""Export of a compiled network: the file, the C sources and the archive that stock Ethos-U software takes, as bytes."""

from npu_model.export.c_source import c_identifier, export_c
from npu_model.export.model_library import export_mlf
from npu_model.export.raw_file import export_raw
from npu_model.export.tflite_file import export_tflite

__all__ = ["c_identifier", "export_c", "export_mlf", "export_raw", "export_tflite"]
