"""The memories: systems behind the AXI ports, memory modes, Vela's ini files and timing-adapter profiles."""
