"""Hooks of mkdocs: pages that are not in docs/ join the site, every package gets a page of its API, and old addresses lead to new ones."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
PACKAGES = ("npu_model", "cascader", "sim", "validation", "npu_testbed")

BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Pages next to docs/. In the site they are inside, the README under a name that is not the index's."""

_PLACES = {"README.md": "about.md"}


def _place(name: str) -> str:
    return _PLACES.get(name, name)


def packages() -> list[str]:
    """Every package with modules of its own, by its dotted name."""
    folders = [folder for package in PACKAGES for folder in (ROOT / package).rglob("__init__.py")]
    return sorted(".".join(folder.parent.relative_to(ROOT).parts) for folder in folders)


def modules(package: str) -> list[str]:
    """The package and its public modules, by their dotted names."""
    folder = ROOT.joinpath(*package.split("."))
    names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    return [package, *(f"{package}.{name}" for name in names)]


def _api_page(package: str) -> str:
    parts = [f"# {package}", ""]
    for name in modules(package):
        parts += [f"::: {name}", "    options:", "      show_submodules: false", ""]
    return "\n".join(parts)


def first_lines(path: Path) -> dict[str, str]:
    """The first line of the docstring of a module (by "") and of each of its public functions, in their order."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [("", tree), *((node.name, node) for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_")]
    return {name: (ast.get_docstring(node) or "").partition("\n")[0] for name, node in nodes}


def verbs() -> dict[str, tuple[str, str]]:
    """Each verb of the one import: the dotted name of its Ask, and the first sentence of the docstring of that class."""
    tree = ast.parse((ROOT / "npu_testbed" / "verbs.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    modules = {alias.name: node.module or "" for node in imports for alias in node.names}
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "verb":
            ask = ast.unparse(node.value.args[0])
            found[ast.unparse(node.targets[0])] = f"{modules[ask]}.{ask}", _class_line(modules[ask], ask)
    return found


def _class_line(module: str, name: str) -> str:
    """The first sentence of a class's docstring."""
    tree = ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
    (node,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())


def api_index() -> str:
    """The front page of the reference: a line for each verb of the one import, and a line for each package."""
    parts = ["# API reference", "", "[Use it from Python](../python.md) explains the verbs of `import npu_testbed`:", ""]
    parts += [f"- [`{name}`](npu_testbed.commands.md#{ask}): {_plain(line)}" for name, (ask, line) in verbs().items()]
    parts += ["", "## Packages", "", "Each package has a page, made of its docstrings.", ""]
    for package in packages():
        line = _plain(first_lines(ROOT.joinpath(*package.split("."), "__init__.py"))[""])
        parts.append(f"- [{package}]({package}.md): {line}" if line else f"- [{package}]({package}.md)")
    return "\n".join(parts) + "\n"


def _plain(line: str) -> str:
    """A line of a docstring with its roles as code."""
    return re.sub(r":\w+:`[~!]?([^`]+)`", r"`\1`", line)


def redirects(index: str) -> dict[str, str]:
    r"""Return the new page of each old one, by the last table of docs/index.md.

    >>> redirects("| old page | now |\n| --- | --- |\n| `a.md`, `b/c.md` | [New](new.md) |\n")
    {'a.md': 'new.md', 'b/c.md': 'new.md'}
    """
    rows = re.findall(r"^\| (.*?) \| \[.*?\]\((\S+)\) \|$", index.rpartition("| old page |")[2], re.MULTILINE)
    return {old: new for olds, new in rows for old in re.findall(r"`(\S+\.md)`", olds)}


def on_post_build(config: Any) -> None:
    """Write a page at each old address that sends its reader to the new one."""
    for old, new in redirects((ROOT / "docs" / "index.md").read_text(encoding="utf-8")).items():
        path = Path(config["site_dir"], old).with_suffix(".html")
        target = "../" * old.count("/") + new.replace(".md", ".html")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'<!doctype html>\n<meta http-equiv="refresh" content="0; url={target}">\n<a href="{target}">{target}</a>\n', encoding="utf-8"
        )


def notebook_page(path: Path) -> str:
    """A notebook as a page: its texts, its code, and what each cell printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            drawn = data.get("image/svg+xml") or data.get("text/html")
            text = output.get("text") or data.get("text/plain") or ()
            if drawn:
                parts.append(f"<div>{''.join(drawn)}</div>")
            elif text:
                parts.append(f"```text\n{''.join(text).rstrip()}\n```")
    # The notebook lies beside docs/, the page in it.
    return "\n\n".join(parts).replace("](../docs/", "](") + "\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    for name in BESIDE:
        files.append(File.generated(config, _place(name), content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, "notebook.md", content=notebook_page(NOTEBOOK)))
    for package in packages():
        files.append(File.generated(config, f"api/{package}.md", content=_api_page(package)))
    files.append(File.generated(config, "api/index.md", content=api_index()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make links between docs/ and the pages next to it lead to the same pages of the site."""
    source = page.file.src_uri
    if source in map(_place, BESIDE):
        markdown = re.sub(r"\]\(docs/", "](", markdown)
        return re.sub(rf"\]\(({'|'.join(map(re.escape, BESIDE))})", lambda match: f"]({_place(match[1])}", markdown)
    names = "|".join(map(re.escape, BESIDE))
    return re.sub(rf"\]\(((?:\.\./)+)({names})", lambda match: f"]({match[1].removeprefix('../')}{_place(match[2])}", markdown)
