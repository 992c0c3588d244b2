"""The one exception of the plugin."""

from __future__ import annotations

import click
from mlia.core.errors import ConfigurationError


class RefusedError(ConfigurationError, click.ClickException, ValueError):  # type: ignore[misc]  # the package has no types
    """Refuses a model, a profile or an option in a sentence: the command line prints it without a traceback, with exit status 1."""
