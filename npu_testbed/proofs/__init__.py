"""Runs that are compared with references: LiteRT's bytes, Vela's figures, TVM's run, and the first layer that differs."""
