"""The version of the product."""

VERSION = "0.1.0"
"""Package metadata, files and documents take it from here."""
