"""Export of a compiled network: the file, the C sources and the archive that stock Ethos-U software takes, as bytes."""

from npu_model.export.tflite_file import export_tflite

__all__ = ["export_tflite"]
