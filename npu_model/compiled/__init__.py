"""Compiled networks: the Programs and CPU operators inside a ``*_vela.tflite``."""
