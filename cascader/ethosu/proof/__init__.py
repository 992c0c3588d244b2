"""The proof for small networks: every schedule of a stated class is replayed, or bounded from below by what its jobs take at least."""
