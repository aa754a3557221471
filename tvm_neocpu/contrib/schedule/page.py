"""An experiment as one self-contained HTML page, which loads nothing."""

from __future__ import annotations

from html import escape
from importlib import resources

from tvm_neocpu.contrib.explain.frame import edge_path, framed, short_label
from tvm_neocpu.contrib.explain.layered import draw
from tvm_neocpu.contrib.explain.page import colours_of
from tvm_neocpu.contrib.html_page import html_page, html_table
from tvm_neocpu.contrib.schedule import table
from tvm_neocpu.contrib.schedule.charts import buffer_chart, live_chart
from tvm_neocpu.contrib.schedule.experiment import Experiment

BOX = (150.0, 30.0)
MAX_LABEL = 24


def render(found: Experiment) -> str:
    """The page as HTML text."""
    title = f"{found.network} on {found.machine}"
    notes = "".join(f"<p>{escape(line)}</p>" for line in table.note_lines(found))
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    body = f"""<header>
<h1>{escape(title)}</h1>
<p>{escape(table.headline(found))}</p>
{notes}
</header>
<main>
<section class="charts" aria-label="memory over time">
<h2>Buffer over time, best partition</h2>
{buffer_chart(found)}
<h2>Bytes alive over steps, nothing fused</h2>
{live_chart(found)}
</section>
<section class="tables" aria-label="tables">
<h2>Partitions and orders</h2>
{html_table(table.HEADINGS, table.rows_of(found))}
<h2>Memory of the whole network</h2>
<p>{escape(table.MEMORY_NOTE)}</p>
{html_table(table.MEMORY_HEADINGS, table.memory_rows(found))}
</section>
<section class="drawing" aria-label="the network">
<h2>Groups of the best partition</h2>
<p>Boxes of one colour and number run fused; the number is the place of the group.</p>
<div class="canvas">
{network_svg(found)}
</div>
</section>
</main>"""
    return html_page(f"{title}: fused groups", style, body)


def network_svg(found: Experiment) -> str:
    """The network; each box has the colour and the number of its group."""
    graph, best = found.graph, found.best
    group_of = {node: at for at, group in enumerate(best.groups) for node in group}
    alone = [str(at) for at, group in enumerate(best.groups) if len(group) == 1]
    colours = colours_of((str(at) for at in range(len(best.groups))), neutral=alone)
    drawing = draw([node.id for node in graph.nodes], graph.edges, BOX)
    parts = []
    for (source, target), points in drawing.routes.items():
        one, other = group_of[graph.place[source]], group_of[graph.place[target]]
        kind = "inside" if one == other else "between"
        parts.append(f'<path class="edge {kind}" d="{edge_path(points)}"/>')
    for place, node in enumerate(graph.nodes):
        group = group_of[place]
        x, y = drawing.centres[node.id]
        left, top = x - BOX[0] / 2, y - BOX[1] / 2
        label = short_label(node.label, MAX_LABEL)
        parts.append(
            f'<g class="node"><title>{escape(f"{node.id}: {node.label}, group {group}")}</title>'
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{BOX[0]}" height="{BOX[1]}" rx="5"'
            f' style="fill:{colours[str(group)]}"/>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}">{escape(label)}</text>'
            f'<text class="number" x="{left + 4:.1f}" y="{top + 10:.1f}">{group}</text></g>'
        )
    return framed(drawing, f"{len(graph)} nodes in {len(best.groups)} groups", parts)
