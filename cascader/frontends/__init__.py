"""Sources of networks: Vela as legaliser, and the built-in zoo."""
