"""Runtimes: what TFLite Micro, ExecuTorch and firmware of one's own set aside for a network, and the cycles that it takes there."""
