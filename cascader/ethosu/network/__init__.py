"""The graph of an Ethos-U network: its Parts with their kernels, and what an axis makes of them."""
