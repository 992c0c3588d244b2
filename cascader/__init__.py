"""The cascading scheduler: graph, allocation, Schedule and its lowering to a Program."""
