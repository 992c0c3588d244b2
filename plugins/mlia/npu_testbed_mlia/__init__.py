"""A plugin of Arm's ML Inference Advisor (MLIA): a backend and a target that answer with replays of npu-testbed."""

NAME = "npu-testbed"
"""The backend's name and that of its target, as the command line of MLIA takes them."""
