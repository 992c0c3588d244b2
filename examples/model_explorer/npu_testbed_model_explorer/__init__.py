"""An adapter of Model Explorer for schedules and compiled networks: ``model-explorer --extensions=npu_testbed_model_explorer FILE``."""
