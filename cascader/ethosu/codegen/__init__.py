"""Code generation: from a Schedule to the Programs that the NPU runs."""
