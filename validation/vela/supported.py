"""Operators that Vela puts on an Ethos-U55, and on which conditions, as Vela itself tells."""

from __future__ import annotations

from collections.abc import Mapping

from npu_model.errors import InputError

ARCHITECTURE = "EthosU55"
"""Vela's name of the device."""


def operator_constraints() -> Mapping[str, tuple[str, ...]]:
    """The conditions by the operator's TFLite name, both in alphabetical order; InputError if Vela cannot be asked."""
    try:
        from ethosu import regor  # noqa: PLC0415  # Vela's compiled core is loaded by who asks it alone

        found = regor.tflite_operator_constraints(ARCHITECTURE)
    except (ImportError, AttributeError) as error:
        raise InputError("Vela's C++ core cannot be asked for its operators: install ethos-u-vela 5.2 or newer.") from error
    return {name: tuple(sorted(found[name])) for name in sorted(found)}
