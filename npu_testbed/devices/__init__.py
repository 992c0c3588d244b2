"""The device and the memories that a user names: chips, configuration files, timing, and the limits of an accelerator."""
