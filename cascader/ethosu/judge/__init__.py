"""The judge: the replayed cycles of a draft, from tables that are made once for each form of a network."""
