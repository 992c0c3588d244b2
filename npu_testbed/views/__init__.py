"""Pictures as SVG text, written by hand: the frontier, and the arena over time."""
