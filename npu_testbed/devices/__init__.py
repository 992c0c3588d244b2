"""The device and the memories that a user names: configuration files, timing, and the limits of an accelerator."""
