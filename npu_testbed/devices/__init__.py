"""The device and the memories that a user names: configuration files, timing, and what an accelerator can have."""
