"""Jobs of a schedule: the kernel of some rows, its constants, staged or at home, its transfers, and the Schedule that holds them all."""
