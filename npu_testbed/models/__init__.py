"""Where networks come from: files, built networks, and Tensor Expressions, with the names and shapes that a user gives."""
