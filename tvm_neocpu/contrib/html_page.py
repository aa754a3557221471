"""What the HTML pages share: the frame of one that stands alone, and tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_RUNS_ITS_OWN = "; script-src 'unsafe-inline'"


def html_page(title: str, style: str, body: str, script: str = "", attributes: str = "") -> str:
    """A page with its own style and script that fetches nothing.

    ``title`` is plain text, ``style`` CSS, ``body`` HTML; ``attributes`` are the root's.
    """
    policy = _POLICY + (_RUNS_ITS_OWN if script else "")
    ending = f"<script>\n{script}</script>\n" if script else ""
    return f"""<!doctype html>
<html lang="en"{attributes}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
{body}
{ending}</body>
</html>
"""


def html_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Collection[str] = (),
    nodes: Sequence[str | None] = (),
    name: str = "",
) -> str:
    """A table of plain texts; columns under ``numbers`` have the class ``number``.

    ``nodes`` are the ids of the nodes that the rows are about, for scripts; ``name`` is the id of
    the table.
    """
    rows = list(rows)
    classes = [' class="number"' if heading in numbers else "" for heading in headings]
    marks = [f' data-node="{escape(node)}"' if node else "" for node in nodes or [None] * len(rows)]
    own = f' id="{escape(name)}"' if name else ""
    body = (
        f"<tr{mark}>{_cells('td', classes, row)}</tr>"
        for mark, row in zip(marks, rows, strict=True)
    )
    return (
        f"<table{own}><thead><tr>{_cells('th', classes, headings)}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _cells(tag: str, classes: Sequence[str], texts: Sequence[str]) -> str:
    pairs = zip(classes, texts, strict=True)
    return "".join(f"<{tag}{name}>{escape(text)}</{tag}>" for name, text in pairs)
