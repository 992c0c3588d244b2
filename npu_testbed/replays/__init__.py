"""A schedule or a compiled network replayed: cycles, bytes, streams, and the files that are exported."""
