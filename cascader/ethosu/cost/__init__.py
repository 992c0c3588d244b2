"""The cost model of the search: cycles of stripes, block configs, and what neighbouring jobs share."""
