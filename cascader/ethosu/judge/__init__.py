"""The judge: what a draft of a schedule takes in replay, by tables that are made once for each form of a network."""
