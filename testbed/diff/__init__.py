"""What moved between two schedules of a network, layer by layer, and whether one keeps to a budget or a baseline."""
