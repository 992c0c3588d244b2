"""The device: accelerators, memory system, Program, command stream, block configs, weight streams and cost."""
