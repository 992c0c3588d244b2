"""Plans and Proposals: execution order, liveness, buffers and costs of part groups, and the Pareto sets of both."""
