"""The frame of an HTML page that stands alone: its own style, nothing fetched, nothing run."""

from __future__ import annotations

from html import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html_page(title: str, style: str, body: str) -> str:
    """The page's text; ``title`` is plain text, ``style`` CSS, ``body`` HTML."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
