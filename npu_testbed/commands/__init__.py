"""The commands: each module adds its parser and runs it; what a command does is in :mod:`npu_testbed.pipeline`."""
