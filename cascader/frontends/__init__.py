"""Sources of networks: Vela, which legalises a model, and Tensor Expressions."""
