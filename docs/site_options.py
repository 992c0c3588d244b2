"""Files that follow from the Asks: the table of options in docs/commands.md, and the inputs of the action that runs `check`.

python docs/site_options.py           says whether both are up to date (exit status 1 if not)
python docs/site_options.py --write   writes them anew
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from npu_testbed.asked.commands import COMMANDS
from npu_testbed.asked.option import Declared, declared
from npu_testbed.commands.check import Check

ROOT = Path(__file__).parents[1]
PAGE, ACTION = ROOT / "docs" / "commands.md", ROOT / ".github" / "actions" / "check" / "action.yml"

_BEGIN, _END = "{} options of the Asks (python docs/site_options.py --write)", "{} end of the options"
_OTHERWISE = {"file": "model", "against": "baseline"}
"""Options of `check` that are inputs by other names."""
_OWN = (*_OTHERWISE, "tolerance", "sram_map", "markdown", "json", "update", "progress")
"""Options of `check` that the action itself gives."""
PREFIX = "ASK_"
"""Beginning of an input's variable, as --home would be the shell's own HOME."""


def options() -> list[tuple[str, tuple[str, ...], str]]:
    """Each option as a command line spells it, the commands that have it with one sentence of help, and that sentence."""
    found: dict[tuple[str, str], list[str]] = {}
    for command in COMMANDS:
        for one in declared(command.load()):
            if one.option.only != "values" and not one.option.source:
                found.setdefault((_spelled(one), one.option.help), []).append(command.words)
    return [(spelled, tuple(commands), said) for (spelled, said), commands in sorted(found.items(), key=lambda item: item[0][0])]


def _spelled(one: Declared) -> str:
    value = one.option.metavar or "|".join(filter(None, one.choices or ("VALUE",)))
    flag = ", ".join((one.flag, *one.option.named))
    return flag if one.is_switch else f"{flag} {value}"


def _commands(words: Iterable[str]) -> str:
    """The commands, all searches by that name."""
    searches = [command.words for command in COMMANDS if command.load().is_search]
    given = list(words)
    if len(given) == len(COMMANDS):
        return "all"
    if set(searches) <= set(given):
        return ", ".join(("all searches", *(f"`{one}`" for one in given if one not in searches)))
    return ", ".join(f"`{one}`" for one in given)


def table() -> str:
    """The table of options."""
    rows = [f"| `{spelled}` | {_commands(commands)} | {said} |" for spelled, commands, said in options()]
    escaped = [re.sub(r"(?<=\w)\|(?=[\w.])", r"\\|", row) for row in rows]
    return "\n".join(("| option | commands | what it does |", "| --- | --- | --- |", *escaped))


def asked() -> list[Declared]:
    """The options of `check` that are inputs of the action by their own names."""
    return [one for one in declared(Check) if one.name not in _OWN and not one.option.source]


def _input(one: Declared) -> str:
    return one.flag.removeprefix("--")


def _variable(one: Declared) -> str:
    return PREFIX + one.name.upper()


def inputs() -> str:
    """The inputs of the action."""
    lines = []
    for one in asked():
        more = "; true for yes" if one.is_switch else "; one a line" if one.option.many else ""
        lines += [f"  {_input(one)}:", f"    description: {json.dumps(one.option.help + more)}", '    default: ""']
    return "\n".join(lines)


def variables() -> str:
    """The inputs as variables of the script."""
    return "\n".join(f"        {_variable(one)}: ${{{{ inputs.{_input(one)} }}}}" for one in asked())


def words() -> str:
    """The lines of the script that make words of the variables."""
    lines = []
    for one in asked():
        variable = f"${_variable(one)}"
        if one.is_switch:
            lines.append(f'        if [ "{variable}" = true ]; then set -- "$@" {one.flag}; fi')
        elif one.option.many:
            lines += [
                "        while IFS= read -r one; do",
                f'          if [ -n "$one" ]; then set -- "$@" "{one.flag}=$one"; fi',
                f'        done <<< "{variable}"',
            ]
        else:
            lines.append(f'        if [ -n "{variable}" ]; then set -- "$@" "{one.flag}={variable}"; fi')
    return "\n".join(lines)


def written() -> dict[Path, str]:
    """Both files as the Asks have them."""
    return {PAGE: _between(PAGE, "<!--", [f"\n{table()}\n"]), ACTION: _between(ACTION, "#", [inputs(), variables(), words()])}


def _between(path: Path, mark: str, parts: list[str]) -> str:
    """The text of a file with its generated parts, each between two marks, written anew."""
    text = path.read_text(encoding="utf-8")
    begin, end = re.escape(_BEGIN.format(mark)), re.escape(_END.format(mark))
    pieces = re.split(rf"(^ *{begin}[^\n]*\n)(?:.*?)(^ *{end})", text, flags=re.DOTALL | re.MULTILINE)
    assert len(pieces) == 3 * len(parts) + 1, f"{path} has other marks"  # noqa: S101  # a mistake in the file
    for number, part in enumerate(parts):
        pieces[3 * number + 1] += f"{part}\n"
    return "".join(pieces)


def main(arguments: list[str]) -> int:
    """Write both files, or say which is out of date."""
    old = [path for path, text in written().items() if path.read_text(encoding="utf-8") != text]
    for path in old:
        if "--write" in arguments:
            path.write_text(written()[path], encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)} {'was written' if '--write' in arguments else 'is out of date'}\n")
    return 1 if old and "--write" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
