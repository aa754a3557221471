"""The charts of a log as one self-contained HTML page, or as one SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from tvm_neocpu.contrib.explain.page import colours_of
from tvm_neocpu.contrib.html_page import html_page
from tvm_neocpu.contrib.tuning_plots import chart
from tvm_neocpu.contrib.tuning_plots.history import History

# More curves than this cannot be told apart: the slowest workloads are drawn.
MAX_CURVES = 20
_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 20px auto; max-width: 1100px; }
figure { margin: 0 0 28px; }
svg { max-width: 100%; height: auto; }
ul { list-style: none; padding: 0; font-size: 12px; columns: 2; }
li span { display: inline-block; width: 11px; height: 11px; margin-right: 6px; border-radius: 3px; }
"""


def render(title: str, history: History) -> str:
    """The page as HTML text; it loads nothing."""
    curves = {curve.name: curve.points for curve in history.workloads[:MAX_CURVES]}
    left_out = max(0, len(history.workloads) - MAX_CURVES)
    note = f" The {MAX_CURVES} slowest workloads; {left_out} more are left out." if left_out else ""
    parts = [
        _figure("Best so far", f"Milliseconds of each workload.{note}", *_best(curves)),
        _figure(
            "Predicted against measured",
            "A point for each record: on the line the cost model is right.",
            *_scatter(history),
        ),
    ]
    body = f"""<h1>{escape(title)}</h1>
{_networks(history)}
{"".join(parts)}"""
    return html_page(title, _STYLE, body)


def render_svg(history: History) -> str:
    """Both charts, one above the other, as one SVG file."""
    best, _ = _best({curve.name: curve.points for curve in history.workloads[:MAX_CURVES]})
    points, _ = _scatter(history)
    below = points.replace("<svg ", f'<svg y="{chart.HEIGHT:.0f}" ', 1)
    size = f'width="{chart.WIDTH:.0f}" height="{2 * chart.HEIGHT:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} color="#1b1f24">'
    return f"{head}\n{best}\n{below}\n</svg>\n"


def _best(curves: Mapping[str, tuple[chart.Point, ...]]) -> tuple[str, dict[str, str]]:
    colours = colours_of(curves)
    every = [point for points in curves.values() for point in points]
    across = chart.Axis.of("seconds of tuning", [point[0] for point in every])
    up = chart.Axis.of("best so far, ms", [point[1] for point in every], log=True)
    return chart.steps(across, up, curves, colours), colours


def _scatter(history: History) -> tuple[str, dict[str, str]]:
    colours = colours_of(history.scatter)
    every = [value for points in history.scatter.values() for point in points for value in point]
    across = chart.Axis.of("predicted, ms", every, log=True)
    up = chart.Axis.of("measured, ms", every, log=True)
    return chart.scatter(across, up, history.scatter, colours), colours


def _figure(title: str, note: str, drawing: str, colours: Mapping[str, str]) -> str:
    items = "".join(
        f'<li><span style="background:{colour}"></span>{escape(name)}</li>'
        for name, colour in colours.items()
    )
    return (
        f"<figure><h2>{escape(title)}</h2><p>{escape(note)}</p>\n{drawing}\n"
        f"<figcaption><ul>{items}</ul></figcaption></figure>\n"
    )


def _networks(history: History) -> str:
    lines = (
        f"<li>{escape(name)}: {ratio:.3f}x ({low:.3f}-{high:.3f})</li>"
        for name, ratio, low, high in history.networks
    )
    return f"<h2>Networks, before over after</h2><ul>{''.join(lines)}</ul>" * bool(history.networks)
