"""The commands: each module adds its parser and runs it; what a command does is in :mod:`testbed.pipeline`."""
