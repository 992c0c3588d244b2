"""Vela as a peer: its supported operators, its replayed schedules next to its estimates, and compilations at several limits at once."""
