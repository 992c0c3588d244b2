"""The search's processes: calls that are spread over them, and large arguments that each process gets once."""
