"""Prefetch: the bytes of an arena that tensors leave free, and when and where constants are copied into them."""
