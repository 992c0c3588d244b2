"""From a network to the compiled file in one step, with the reports that Vela writes."""
