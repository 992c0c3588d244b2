"""Runs that are held against references: LiteRT's bytes, Vela's figures, TVM's run, and where a difference begins."""
