"""The application: command line, pipeline and reports."""
