"""Differences between two schedules of a network, layer by layer, and checks of one against a budget or a baseline."""
