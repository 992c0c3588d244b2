"""Sources of networks: Vela as legaliser."""
