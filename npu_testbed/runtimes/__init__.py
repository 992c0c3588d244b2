"""Runtimes: the bytes that TFLite Micro, ExecuTorch and your own firmware set aside for a network, and the cycles there."""
