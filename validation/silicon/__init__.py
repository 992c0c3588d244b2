"""Counters of silicon: fully connected kernels on one chip with an Ethos-U55, rebuilt through Vela's API and replayed."""
