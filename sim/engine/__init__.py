"""The replay engine: the NPU's units as SimPy processes."""
