"""Pages of the site that are made of other files: a hook of MkDocs (mkdocs.yml), which calls the functions on_...

Notebooks become pages with their code, docstrings of methods a page of their own. Results and changes, which lie beside
what they are about, come into the site with their links; links to a method's file lead to its docstring.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
#: Files of the repository by their place in the site.
PAGES = {
    "measured/almanac.md": "recipes/almanac/RESULTS.md",
    "measured/help.md": "recipes/help/RESULTS.md",
    "measured/speed.md": "benchmarks/RESULTS.md",
    "measured/cost.md": "benchmarks/cost.md",
    "measured/cost.svg": "benchmarks/cost.svg",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
METHODS = {"mt": "Text", "st": "Speech"}
METHOD = re.compile(rf"(?:{'|'.join(METHODS)})/[a-z]\w*\.py")
#: Roles of docstrings, which another generator would turn into links.
ROLE = re.compile(r":(?:meth|class|func|data|attr|mod):(?=<code>)")
LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    for place in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{place.stem}.md", content=notebook_page(place)))
    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "api/methods.md", content=methods_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Let links to files of the repository lead to their pages; of those that have none, the text stays."""
    own = page.file.src_uri
    source = PAGES.get(own, f"docs/{own}")
    known = {file: name for name, file in PAGES.items()}

    def target(link: re.Match[str]) -> str:
        text, path, anchor = link[1], link[2], link[3] or ""
        place = _tidy(f"{Path(source).parent.as_posix()}/{path}")
        name = known.get(place, place.removeprefix("docs/"))
        if METHOD.fullmatch(place):
            name = f"api/methods.md#{_anchor(place)}"
        elif place not in known and not place.startswith("docs/") and (ROOT / place).exists():
            return text
        if name.endswith(".ipynb") and own != name.replace(".ipynb", ".md"):
            name = name.replace(".ipynb", ".md")
        return f"[{text}]({'../' * own.count('/')}{name}{anchor})"

    return LINK.sub(target, markdown)


def on_page_content(html: str, **_: object) -> str:
    """Leave the roles of docstrings out."""
    return ROLE.sub("", html)


def _tidy(place: str) -> str:
    """Return a path without its dots."""
    parts: list[str] = []
    for part in place.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def notebook_page(place: Path) -> str:
    """Return the cells of a notebook as a page: texts as they are, code in fences."""
    cells = json.loads(place.read_text(encoding="utf-8"))["cells"]
    blocks = []
    for cell in cells:
        text = "".join(cell["source"])
        blocks.append(text if cell["cell_type"] == "markdown" else f"````python\n{text}\n````")
    blocks.insert(1, f"[The notebook]({place.name}) of this page can be run in Jupyter.")
    return "\n\n".join(blocks) + "\n"


def methods_page() -> str:
    """Return the docstrings of the files of methods: papers, losses, and in what they differ from the papers."""
    blocks = [
        "# Methods by file",
        "One file for each published method. [Systems](../systems.md) has papers, recipes and results.",
    ]
    for folder, title in METHODS.items():
        blocks.append(f"## {title}")
        for place in sorted((ROOT / folder).glob("[!_]*.py")):
            name = f"{folder}/{place.name}"
            docstring = ast.get_docstring(ast.parse(place.read_text(encoding="utf-8"))) or ""
            blocks += [f"### `{name}` {{#{_anchor(name)}}}", docstring.replace("``", "`")]
    return "\n\n".join(blocks) + "\n"


def _anchor(place: str) -> str:
    return re.sub(r"[/_.]", "-", place)
