"""README.md and docs/ are true: their snippets run, print what they say they print, and leave nothing out.

Each page runs in a process of its own (this file, as a script), in an empty folder, its blocks in order in one module.
``python tests/test_docs.py --write [NAME…]`` puts what the snippets print now into the pages, or into those named; look at
the difference afterwards. Pages that need a server find it by the variables of ``SERVERS``, which have to be set for this.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SERVERS = {
    "migrations.md": {"S3_ENDPOINT": "s3_endpoint", "S3_BUCKET": "s3_bucket"},
    "stores-postgres.md": {"POSTGRES_URL": "postgres_url"},
    "stores-redis.md": {"REDIS_URL": "redis_url"},
    "stores-s3.md": {"S3_ENDPOINT": "s3_endpoint", "S3_BUCKET": "s3_bucket"},
}
"""The variables by which pages that need a server find it, each with the fixture that has its value."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
ANCHORED = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CHANGING = (
    (re.compile(r"\b[0-9a-f]{32,}\b"), "<hex>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d+:]*"), "<time>"),
)
"""What differs from run to run: ids, digests and times."""


class Snippet(NamedTuple):
    """A block of Python, the line it starts at, and what the block after it says that it prints."""

    line: int
    code: str
    printed: str | None


def snippets_of(page: Path) -> Iterator[Snippet]:
    """Yield the Python blocks of a page; a ``text`` block that comes next is their output."""
    text = page.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] == "python":
            printed = following[2] if following and following[1] == "text" else None
            yield Snippet(text.count("\n", 0, block.start()) + 1, block[2], printed)


def run_page(page: Path) -> list[str]:
    """Run the blocks of a page in one module and return what each printed; errors show the page's own lines."""
    module = types.ModuleType(page.stem.lower())
    sys.modules[module.__name__] = module
    printed = []
    for snippet in snippets_of(page):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile("\n" * snippet.line + snippet.code, page.name, "exec"), vars(module))
        printed.append(output.getvalue())
    return printed


def run_apart(page: Path, folder: str | Path) -> list[str]:
    """Run a page in a process of its own, in a folder."""
    command = [sys.executable, __file__, str(page)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    printed: list[str] = json.loads(done.stdout)
    return printed


def write_page(page: Path) -> None:
    """Put what its snippets print into a page, where it differs in more than what changes from run to run."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = run_apart(page, folder)
    text = page.read_text(encoding="utf-8")
    for snippet, output in zip(snippets_of(page), outputs, strict=True):
        if snippet.printed is not None and steady(snippet.printed) != steady(output):
            block = f"```python\n{snippet.code}```\n\n```text\n"
            text = text.replace(f"{block}{snippet.printed}```", f"{block}{output}```")
    page.write_text(text, encoding="utf-8")


def steady(text: str) -> str:
    """Return the text without what changes from run to run."""
    for pattern, word in CHANGING:
        text = pattern.sub(word, text)
    return text


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        for each in PAGES:
            if each.name in (sys.argv[2:] or [each.name]):
                write_page(each)
    else:
        print(json.dumps(run_page(Path(sys.argv[1]))))
    sys.exit()


import pytest  # noqa: E402 - the script above runs without it

import blobcp.errors  # noqa: E402


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every Python block runs, and prints what the ``text`` block after it shows."""
    for variable, fixture in SERVERS.get(page.name, {}).items():
        monkeypatch.setenv(variable, request.getfixturevalue(fixture))
    for snippet, printed in zip(snippets_of(page), run_apart(page, tmp_path), strict=True):
        shown = snippet.printed if snippet.printed is not None else ""
        assert steady(printed) == steady(shown), f"{page.name}, line {snippet.line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link leads to a file that is there."""
    broken = [
        target for target, _ in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()
    ]

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    """Every relative link with an anchor leads to a heading that is there, of the page itself or of another one."""
    broken = [
        f"{target}{anchor}"
        for target, anchor in ANCHORED.findall(page.read_text(encoding="utf-8"))
        if anchor[1:] not in anchors_of((page.parent / target) if target else page)
    ]

    assert broken == []


def anchors_of(page: Path) -> set[str]:
    """Return what the headings of a page are linked by: their words in lower case, apart by dashes."""
    without_code = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in HEADING.findall(without_code)}


def test_every_page_is_in_the_contents() -> None:
    """The README links every page of docs/."""
    readme = PAGES[0].read_text(encoding="utf-8")

    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in readme] == []


def test_every_error_is_documented() -> None:
    """docs/errors.md has a word on each public error."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")

    assert [name for name in blobcp.errors.__all__ if f"`{name}`" not in page] == []
