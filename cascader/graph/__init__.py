"""The graph: Tensors, Parts and Propagators of any device, the rows of a graph along one axis, and the order of its Parts."""
