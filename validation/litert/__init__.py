"""LiteRT as the judge of numerics, and as the kernels of CPU operators."""
