"""A network's plan, and its times where it was profiled, as one self-contained HTML page.

The page loads nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources

from tvm_neocpu.contrib.explain import cells, words
from tvm_neocpu.contrib.explain.as_json import as_json
from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork
from tvm_neocpu.contrib.explain.svg import network_svg
from tvm_neocpu.contrib.explain.timed import Timed
from tvm_neocpu.contrib.html_page import html_page, html_table
from tvm_neocpu.core.messages.fallback import Coverage
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.conv_graph import NodeKind
from tvm_neocpu.global_search.network.explain import Explanation

GREY = "#8b949e"
# Colours legible on light and dark pages. Colour-blind people can tell the first ones apart (after
# Okabe and Ito, 2008).
PALETTE = (
    "#0a84d6",
    "#e69f00",
    "#009e73",
    "#cc5fa5",
    "#d55e00",
    "#56b4e9",
    "#7d6bd8",
    "#b8a800",
    "#5d8a3a",
    "#a0522d",
)
# Degrees of hue between further colours; multiples of the golden angle never repeat a hue.
_GOLDEN_ANGLE = 137.508


def render(network: ExplainedNetwork, timed: Timed | None = None) -> str:
    """The page as HTML text; ``timed`` adds what was measured."""
    found = network.explanation
    title = f"{network.name} on {network.cpu}"
    layouts, algorithms = _layout_colours(found), _algorithm_colours(found)
    data = json.dumps(as_json(network)).replace("<", "\\u003c")
    shown = "time" if timed else "layout"
    modes = "".join(
        f'<button type="button" data-colours="{mode}" aria-pressed="{str(mode == shown).lower()}">'
        f"{mode}</button>"
        for mode in (["time"] if timed else []) + ["layout", "algorithm"]
    )
    body = f"""<header>
<h1>{escape(title)}<small>{plural(network.threads, "thread")}</small></h1>
{_figures(network, timed)}
</header>
<main>
<section class="drawing" aria-label="the network">
<div class="tools">
<div class="toggle" role="group" aria-label="colours">
{modes}
</div>
<div class="zoom" role="group" aria-label="size">
<button type="button" data-zoom="-1" aria-label="smaller">&minus;</button>
<button type="button" data-zoom="0">1:1</button>
<button type="button" data-zoom="1" aria-label="larger">+</button>
</div>
{_legend("layout", layouts)}
{_legend("algorithm", algorithms)}
</div>
<div class="canvas">
{network_svg(found, layouts, algorithms, network.names, timed)}
</div>
</section>
<section class="tables" aria-label="tables">
{timed.sections if timed else ""}
{_transforms(found)}
{_groups(found)}
{_nodes(network)}
{_fallbacks(network.coverage)}
</section>
</main>
<div id="tip" role="tooltip" hidden></div>
<script id="data" type="application/json">{data}</script>"""
    about = "times, layouts and algorithms" if timed else "layouts and algorithms"
    return html_page(
        f"{title}: {about}",
        _asset("page.css"),
        body,
        _asset("page.js"),
        f' data-colour="{shown}"',
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _layout_colours(found: Explanation) -> dict[str, str]:
    options = [row.option for row in found.nodes]
    layouts = sorted({layout for o in options for layout in (o.reads, o.writes)})
    return colours_of(map(str, layouts), neutral=["NCHW"])


def _algorithm_colours(found: Explanation) -> dict[str, str]:
    names = [words.algorithm(row.node, row.option) for row in found.nodes]
    undecided = [kind.value for kind in (NodeKind.JOIN, NodeKind.BOUNDARY)]
    return colours_of(sorted(set(names)), neutral=undecided)


def colours_of(names: Iterable[str], neutral: Iterable[str] = ()) -> dict[str, str]:
    """A colour for each name, in the order given; ``neutral`` names are grey."""
    plain = set(neutral)
    colours: dict[str, str] = {}
    taken = 0
    for name in dict.fromkeys(names):
        if name in plain:
            colours[name] = GREY
            continue
        colours[name] = _colour(taken)
        taken += 1
    return colours


def _colour(number: int) -> str:
    if number < len(PALETTE):
        return PALETTE[number]
    return f"hsl({number * _GOLDEN_ANGLE % 360:.0f} 60% 50%)"


def _figures(network: ExplainedNetwork, timed: Timed | None) -> str:
    cards = [
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in [*(timed.figures if timed else ()), *_figures_of(network)]
    ]
    lines = [f"chosen by {network.origin}", *network.notes]
    paragraphs = "".join(f'<p class="origin">{escape(line)}</p>' for line in lines)
    return f"<dl>{''.join(cards)}</dl>{paragraphs}"


def _figures_of(network: ExplainedNetwork) -> list[tuple[str, str, str]]:
    """Name, value and note of each figure."""
    found, coverage = network.explanation, network.coverage
    if not network.is_planned:
        return [("predicted", words.NO_TIME, "the plan covers no operation")]
    proof = f"{words.proof(found, coverage)}; {words.covered(coverage)}"
    transforms = f"{words.ms(found.transform_seconds)} ms"
    figures = [
        ("predicted", f"{words.ms(network.seconds)} ms", proof),
        ("pools and joins", f"{words.ms(found.sweep_seconds)} ms", "beside the kernels"),
        ("layout transforms", transforms, f"{len(found.transforms)} kept"),
    ]
    if coverage.fixed:
        kinds = coverage.fixed_kinds
        figures.append((kinds, f"{words.ms(coverage.fixed_seconds)} ms", "one way only"))
    if found.greedy_seconds is not None:
        greedy = f"{words.ms(found.greedy_seconds + coverage.fixed_seconds)} ms"
        figures.append(
            ("fastest scheme at every node", greedy, words.greedy_share(found, coverage))
        )
    return figures


def _legend(kind: str, entries: Mapping[str, str]) -> str:
    items = [
        f'<li><span style="--swatch:{colour}"></span>{escape(name)}</li>'
        for name, colour in entries.items()
    ]
    return f'<ul class="legend {kind}">{"".join(items)}</ul>'


def _transforms(found: Explanation) -> str:
    if not found.transforms:
        return "<h2>No layout transform is left</h2>"
    readers = (row.targets[0].id for row in found.transforms)
    rows = zip(readers, cells.transform_rows(found), strict=True)
    return _table(
        "Transforms kept",
        cells.TRANSFORM_NOTE,
        cells.TRANSFORM_HEADINGS,
        cells.TRANSFORM_NUMBERS,
        rows,
    )


def _groups(found: Explanation) -> str:
    if not found.groups:
        return ""
    last = (row.members[-1].id for row in found.groups)
    rows = zip(last, cells.group_rows(found), strict=True)
    return _table(
        "Groups of layers", cells.GROUP_NOTE, cells.GROUP_HEADINGS, cells.GROUP_NUMBERS, rows
    )


def _nodes(network: ExplainedNetwork) -> str:
    found, names = network.explanation, network.names
    rows: list[tuple[str | None, list[str]]] = [
        (row.node.id, cells.node_cells(number, row, found, names.get(row.node.id, "")))
        for number, row in enumerate(cells.deciding(found), 1)
    ]
    rows += [(None, cells.fixed_cells(each)) for each in network.coverage.fixed]
    return _table("Nodes", cells.NODE_NOTE, cells.NODE_HEADINGS, cells.NODE_NUMBERS, rows)


def _fallbacks(coverage: Coverage) -> str:
    """The operations that the plan does not cover; nothing where it covers all."""
    if not coverage.fallbacks:
        return ""
    rows = [(None, cells.fallback_cells(each)) for each in coverage.fallbacks]
    return _table(
        "Not in the plan", coverage.report(), cells.NODE_HEADINGS, cells.NODE_NUMBERS, rows
    )


def _table(
    title: str,
    note: str,
    headings: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[tuple[str | None, list[str]]],
) -> str:
    """A table of rows (id of the row's node, texts of the cells); no id where no node is drawn."""
    rows = list(rows)
    table = html_table(
        headings,
        [list(map(_arrow, texts)) for _, texts in rows],
        numbers,
        [node for node, _ in rows],
    )
    return f"<h2>{escape(title)}</h2><p>{escape(note)}</p>{table}"


def _arrow(text: str) -> str:
    return text.replace("->", "→")
