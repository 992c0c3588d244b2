"""Tensor expressions in, TensorIR out: the one package of the project that uses TVM, which it imports only when it is called."""
