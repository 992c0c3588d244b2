"""Examples of the Python API, run from the root of the repository: ``python -m examples.NAME``."""
