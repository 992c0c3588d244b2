"""Tensor Expressions in, TensorIR out. Only this package and the TE front end use TVM, and they import it on the first call."""
