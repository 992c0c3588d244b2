"""Text of C files around the functions that TVM writes: the header, arrays, and TVM's source without what is for its runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

QUIET = '#ifdef __GNUC__\n#pragma GCC diagnostic ignored "-Wunused-variable"\n#endif\n'
"""Text to put before TVM's C: it names values that its later passes have no use for."""

_EXTERN_C = '#ifdef __cplusplus\nextern "C"\n#endif\n'
_PER_LINE = 40


def static_functions(source: str) -> list[str]:
    """TVM's declarations and functions, each static; its macros and includes before the first one are left out."""
    return [f"static {text}" for text in source.replace(_EXTERN_C, "").split("TVM_DLL ")[1:]]


def array_lines(literals: Sequence[str]) -> str:
    """The elements of an array, some in a line."""
    return ",\n".join(",".join(literals[start : start + _PER_LINE]) for start in range(0, len(literals), _PER_LINE))


def header(name: str, comment: str, sizes: Mapping[str, int], signature: str) -> str:
    """The header of a function: a constant for each of the ``sizes``, whose names begin with ``name``, and the ``signature``."""
    upper = name.upper()
    constants = "".join(f"#define {upper}_{what} {size}\n" for what, size in sizes.items())
    return (
        f"#ifndef {upper}_H\n#define {upper}_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n{constants}\n{_EXTERN_C}"
        f"/* {comment} */\n{signature};\n\n#endif\n"
    )
