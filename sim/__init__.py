"""Replay of a Program: timing, traffic and memory."""
