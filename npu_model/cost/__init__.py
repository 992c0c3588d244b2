"""The cost of operations: cycles, shared buffer, traversal, traffic and block work, as pure functions."""
