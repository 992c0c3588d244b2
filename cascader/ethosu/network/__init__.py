"""The graph of an Ethos-U network: its Parts with their kernels, and their view along an axis."""
