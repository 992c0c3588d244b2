"""Static memory allocation: addresses for buffers whose lifetimes are known."""

from cascader.allocate.problem import Buffer, Problem, Solution, lower_bound
from cascader.allocate.solve import SolverParams, solve
from cascader.allocate.validate import Fault, validate

__all__ = ["Buffer", "Fault", "Problem", "Solution", "SolverParams", "lower_bound", "solve", "validate"]
