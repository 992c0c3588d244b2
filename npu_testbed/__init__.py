"""The application: command line, pipeline and reports."""

VERSION = "0.1.0"
"""The product's version; the package metadata takes it from here."""
