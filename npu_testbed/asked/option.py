"""Options: a field of an Ask declares one, and the parser of the command and the words of a call follow from the field."""

# No `from __future__ import annotations`: other modules read the annotations of Asks as values.
import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from numbers import Integral, Number, Real
from os import PathLike, fspath
from typing import Annotated, Any, ForwardRef, Literal, NamedTuple, get_args, get_origin

import msgspec

from npu_model.errors import InputError
from npu_model.printable import shown


class Group(NamedTuple):
    """A heading of a help text, with options below it."""

    title: str
    description: str | None = None


class Option(NamedTuple):
    """The facts of an option that a field holds in addition to its type.

    - ``help`` and ``metavar`` appear in the help text; ``group`` is the heading above the option.
    - ``read`` makes a value of a word; argparse.ArgumentTypeError says why it cannot.
    - ``many``: the option may be given several times. ``listed``: its value is a list with commas.
    - ``source``: a positional argument; ``named``: spellings in addition to the field's own, such as ``-o``.
    - ``only``: "values" for an argument of Python alone, "words" for an option of the command line alone.
    - ``needed``: the command line must have it; ``spelled``: its long spelling there, where that is not the field's name.
    - ``alone``: the word that an option without a value means.
    - ``callable``: Python may give a function in place of a word.
    - ``writes``: the kind of the file that the command writes to this path.
    """

    help: str = ""
    metavar: str | None = None
    read: Callable[[str], Any] | None = None
    group: Group | None = None
    many: bool = False
    listed: bool = False
    source: bool = False
    named: tuple[str, ...] = ()
    only: Literal["", "values", "words"] = ""
    needed: bool = False
    spelled: str = ""
    alone: str = ""
    callable: bool = False
    writes: Literal["", "file", "picture", "page", "sizes"] = ""


class Declared(NamedTuple):
    """A field of an Ask with its option, its plain type and its default (NODEFAULT: it has none)."""

    name: str
    option: Option
    kind: Any
    default: Any

    @property
    def flag(self) -> str:
        """The option as a command line has it."""
        return self.option.spelled or f"--{self.name.replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """Whether the option takes no value."""
        return self.kind is bool

    def is_value(self, value: Any) -> bool:
        """Whether a value of Python goes to the Ask unchanged, past the command line."""
        return self.option.only == "values" or (self.option.callable and callable(value))

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The words that the option takes, if they are listed."""
        return next((get_args(one) for one in (self.kind, *get_args(self.kind)) if get_origin(one) is Literal), None)

    @property
    def is_plural(self) -> bool:
        """Whether a positional argument takes several words."""
        return self.option.source and self.option.many

    def settings(self, *, is_needed: bool) -> dict[str, Any]:
        """The arguments of argparse's ``add_argument``; a default stays with the field."""
        option, required = self.option, self.option.needed and is_needed
        found: dict[str, Any] = {"help": option.help or None, "default": argparse.SUPPRESS}
        if self.is_switch:
            return found | {"action": "store_true", "dest": self.name, "required": required}
        alone = {"nargs": "?", "const": option.alone} if option.alone else {}
        found |= {"metavar": option.metavar, "type": option.read, "choices": self.choices}
        has_default = self.default is not msgspec.NODEFAULT
        if option.source:
            many = "*" if has_default else "+"
            return found | {"nargs": many if option.many else "?" if has_default else None}
        return found | {"dest": self.name, "required": required, "action": "append" if option.many else "store"} | alone

    def words(self, value: Any) -> list[str]:
        """The words of a command line that set this value; InputError for a value of the wrong kind."""
        if value is None or value is False:
            return []
        if self.is_switch or value is True:
            if value is not True or not (self.is_switch or self.option.alone):
                kind = "is a switch, give True or False" if self.is_switch else "takes a value, give one"
                raise InputError(f"{self.name}={as_said(value)} cannot be: {self.name} {kind}.")
            return [self.flag]
        if isinstance(value, Mapping) and self.option.many:
            value = [f"{self._text(key)}={self._text(one, (*self._kinds, Real))}" for key, one in value.items()]
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and (self.option.many or self.option.listed):
            each = [self._text(one) for one in value]
            return [f"{self.flag}={one}" for one in each] if self.option.many else [f"{self.flag}={','.join(each)}"]
        return [f"{self.flag}={self._text(value)}"]

    @property
    def _kinds(self) -> tuple[type, ...]:
        """The types of one value of the option. A text may be a path, and a number may be an integer."""
        return tuple(dict.fromkeys(_leaves(self.kind)))

    def _said(self, kinds: tuple[type, ...]) -> list[str]:
        """The types as an error message names them, including paths where the option takes one."""
        is_path = any(get_origin(one) is PathLike for one in get_args(self.kind))
        said = [_SAID[one] for one in kinds if one in _SAID and (one is not PathLike or is_path)]
        return [*(["a function"] if self.option.callable else []), *dict.fromkeys(said)]

    def _text(self, value: Any, kinds: tuple[type, ...] = ()) -> str:
        """One value as a word; InputError if its type is not the option's."""
        kinds = kinds or self._kinds
        if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            raise InputError(f"{self.name}={as_said(value)} cannot be: give {' or '.join(self._said(kinds))}.")
        if value is None:
            return "none"
        return str(fspath(value)) if isinstance(value, PathLike) else str(value)


_LEAVES: dict[Any, tuple[type, ...]] = {
    str: (str, PathLike),
    int: (Integral,),
    float: (Real,),
    Fraction: (Real,),
    bool: (bool,),
    type(None): (type(None),),
    PathLike: (PathLike,),
}
_SAID: dict[type, str] = {str: "a text", Integral: "an integer", Real: "a number", PathLike: "a path", bool: "True or False"}
"""The names of types in error messages."""


def as_said(value: Any) -> str:
    """A Python value for an error message: texts and numbers unchanged, other values by their type."""
    return shown(value) if isinstance(value, (str, bytes, Number, type(None))) else f"<{type(value).__name__}>"


def _leaves(kind: Any) -> Iterator[type]:
    """The types of the single values in a type of lists or mappings."""
    origin = get_origin(kind)
    if origin is Literal:
        yield from _LEAVES[str]
    elif kind in _LEAVES or origin in _LEAVES:
        yield from _LEAVES[kind if kind in _LEAVES else origin]
    elif kind is Any or isinstance(kind, (str, ForwardRef)):
        yield from _LEAVES[str]
    else:
        for one in get_args(kind)[1:] if origin is Mapping else get_args(kind):
            yield from _leaves(one)


def _option(annotation: Any) -> tuple[Any, Option] | None:
    if get_origin(annotation) is not Annotated:
        return None
    kind, *beside = get_args(annotation)
    return next(((kind, one) for one in beside if isinstance(one, Option)), None)


@cache
def declared(ask: type[msgspec.Struct]) -> tuple[Declared, ...]:
    """The options of an Ask, followed by the options of its bases. Positional arguments come first, in the order of their fields."""
    defaults = dict(zip(ask.__struct_fields__[::-1], ask.__struct_defaults__[::-1], strict=False))
    found: dict[str, Declared] = {}
    for klass in ask.__mro__:
        for name, annotation in getattr(klass, "__annotations__", {}).items():
            said = _option(annotation)
            if said is not None and name not in found:
                found[name] = Declared(name, said[1], said[0], defaults.get(name, msgspec.NODEFAULT))
    return tuple(sorted(found.values(), key=lambda one: not one.option.source))


def add_options(parser: argparse.ArgumentParser, ask: type[msgspec.Struct], *, is_needed: bool = True) -> None:
    """Give a parser the options of an Ask; with ``is_needed`` False each option may be left out."""
    groups: dict[Group, Any] = {}
    for one in declared(ask):
        if one.option.only == "values" or (one.name == "json" and not getattr(ask, "has_document", True)):
            continue
        group = one.option.group
        if group is not None and group not in groups:
            groups[group] = parser.add_argument_group(group.title, group.description)
        names = (one.name,) if one.option.source else (*one.option.named, one.flag)
        (parser if group is None else groups[group]).add_argument(*names, **one.settings(is_needed=is_needed))


def said_by(ask: msgspec.Struct) -> Iterator[tuple[Declared, Any]]:
    """The options that an Ask sets to something other than the default, with their values."""
    for one in declared(type(ask)):
        value = getattr(ask, one.name)
        if value != one.default:
            yield one, value


def given(ask: msgspec.Struct, names: Sequence[str]) -> list[str]:
    """The named options that were given, as the command line spells them."""
    said = {one.name: one for one, _ in said_by(ask)}
    return [said[name].option.metavar or name if said[name].option.source else said[name].flag for name in names if name in said]


def leave_out(said: Sequence[str]) -> str:
    """The remedy for options that cannot apply.

    >>> leave_out(["--optimise"]), leave_out(["--optimise", "--no-cascade"])
    ('leave it out', 'leave them out')
    """
    return "leave it out" if len(said) == 1 else "leave them out"
