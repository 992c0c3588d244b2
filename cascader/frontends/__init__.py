"""What brings a network in: Vela as legaliser, and the built-in zoo."""
