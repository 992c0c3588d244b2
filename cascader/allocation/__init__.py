"""Static memory allocation: addresses for buffers whose lifetimes are known."""

from cascader.allocation.problem import Buffer, Problem, Solution, lower_bound
from cascader.allocation.solve import SolverParams, solve
from cascader.allocation.validate import Fault, validate

__all__ = ["Buffer", "Fault", "Problem", "Solution", "SolverParams", "lower_bound", "solve", "validate"]
