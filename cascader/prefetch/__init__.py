"""Prefetch: what tensors leave free of an arena, and when and where constants are copied into it."""
