"""What a profile adds to the page of a network's plan: times, timeline, roofline, tables."""

from __future__ import annotations

import math
from html import escape

from tvm_neocpu.contrib.explain import page
from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork
from tvm_neocpu.contrib.explain.page import colours_of
from tvm_neocpu.contrib.explain.timed import Timed, TimedNode
from tvm_neocpu.contrib.html_page import html_table
from tvm_neocpu.contrib.profile import cells
from tvm_neocpu.contrib.profile.compare_layers import Comparison
from tvm_neocpu.contrib.profile.profile_network import PLAIN, Profile, ProfileRow

_WIDTH, _LINE, _PLOT = 1100.0, 44.0, 360.0
_MARGIN = 56.0
# Of "118 GFLOP/s", which stands where the line of the peak would begin.
_PEAK_LABEL = 90.0


def render(network: ExplainedNetwork, profile: Profile, beside: Comparison | None = None) -> str:
    """The page of the network's plan with the profile's times; ``beside`` adds a peer's."""
    return page.render(network, timed_by(profile, beside))


def timed_by(profile: Profile, beside: Comparison | None = None) -> Timed:
    """What the page of a plan gets of a profile."""
    colours = colours_of(sorted({row.algorithm for row in profile.rows}), neutral=[PLAIN])
    legend = "".join(
        f'<li><span style="--swatch:{colour}"></span>{escape(name)}</li>'
        for name, colour in colours.items()
    )
    sections = f"""<h2>Timeline</h2>
<ul class="legend">{legend}</ul>
{_timeline(profile, colours)}
<h2>Roofline</h2>
{_roofline(profile, colours)}
<h2>Operations</h2>
{_table(profile)}
{_comparison(beside) if beside else ""}"""
    return Timed(_nodes(profile), _figures(profile), sections)


def _nodes(profile: Profile) -> dict[str, TimedNode]:
    """The measured times of the graph's nodes, by their ids."""
    slowest = max((row.call.seconds for row in profile.rows_of.values()), default=0.0)
    return {
        node: TimedNode(
            f"{row.call.seconds * 1e3:.3f} ms, {row.call.seconds / profile.wall:.1%}"
            + (f" of {row.layers} layers" if row.layers > 1 else ""),
            row.call.seconds / slowest if slowest else 0.0,
        )
        for node, row in profile.rows_of.items()
    }


def _figures(profile: Profile) -> list[tuple[str, str, str]]:
    """Name, value and note of each figure."""
    parts = f"operations and the virtual machine sum to {profile.explained:.1%}"
    ceilings = profile.ceilings
    peak, width = f"{ceilings.peak:.0f} GFLOP/s", f"{ceilings.bandwidth:.1f} GB/s"
    return [("measured", f"{profile.wall * 1e3:.3f} ms", parts), ("ceilings", peak, width)]


def _timeline(profile: Profile, colours: dict[str, str]) -> str:
    """Bars in the order of the run, as wide as they take; a gap is time between operations."""
    end = max((row.call.start + row.call.seconds for row in profile.rows), default=1.0)
    bars = [
        f'<rect x="{row.call.start / end * _WIDTH:.2f}" y="4" '
        f'width="{max(0.4, row.call.seconds / end * _WIDTH):.2f}" height="{_LINE - 8}" '
        f'fill="{colours[row.algorithm]}"><title>{_hint(row, profile)}</title></rect>'
        for row in profile.rows
    ]
    return f'<svg id="timeline" class="chart" viewBox="0 0 {_WIDTH} {_LINE}">{"".join(bars)}</svg>'


def _roofline(profile: Profile, colours: dict[str, str]) -> str:
    """GFLOP/s over FLOP per byte, both logarithmic, under the machine's two ceilings."""
    rows = [row for row in profile.rows if row.flops and row.call.moved and row.call.seconds]
    if not rows:
        return "<p>No operation's multiply-adds are known.</p>"
    peak, width = profile.ceilings.peak, profile.ceilings.bandwidth
    ridge = peak / width
    intensities = [row.flops / row.call.moved for row in rows]
    low, high = min(*intensities, ridge) / 2, max(*intensities, ridge) * 2
    bottom = min(min(row.gflops for row in rows), peak / 100) / 2

    def x(intensity: float) -> float:
        return _MARGIN + _log_share(intensity, low, high) * (_WIDTH - 2 * _MARGIN)

    def y(gflops: float) -> float:
        return _PLOT - 30 - _log_share(gflops, bottom, peak * 1.6) * (_PLOT - 50)

    roof = f"{x(low):.1f},{y(max(bottom, low * width)):.1f} {x(ridge):.1f},{y(peak):.1f} "
    roof += f"{x(high):.1f},{y(peak):.1f}"
    dots = [
        f'<circle cx="{x(intensity):.1f}" cy="{y(row.gflops):.1f}" '
        f'r="{3 + 9 * math.sqrt(row.call.seconds / profile.wall):.1f}" fill-opacity=".75" '
        f'fill="{colours[row.algorithm]}"><title>{_hint(row, profile)}</title></circle>'
        for row, intensity in zip(rows, intensities, strict=True)
    ]
    return (
        f'<svg id="roofline" class="chart" viewBox="0 0 {_WIDTH} {_PLOT}">'
        f'<polyline class="roof" points="{roof}"/>'
        f'<path class="grid" d="M{x(low) + _PEAK_LABEL:.1f} {y(peak):.1f}H{x(ridge):.1f}"/>'
        f"{''.join(dots)}"
        f'<text x="{x(low) + 4:.0f}" y="{y(peak) + 4:.0f}">{peak:.0f} GFLOP/s</text>'
        f'<text x="{_MARGIN}" y="{_PLOT - 6}">{low:.1f} FLOP per byte</text>'
        f'<text x="{_WIDTH - _MARGIN}" y="{_PLOT - 6}" text-anchor="end">{high:.0f}</text></svg>'
    )


def _comparison(found: Comparison) -> str:
    """The layers that both engines time, in the order of a run."""
    numbers = cells.layer_numbers(found.peer)
    headings = (*cells.LAYER_TEXTS, *numbers)
    table = html_table(headings, map(cells.of_layer, found.layers), numbers, name="beside")
    rest = f"{found.ours_elsewhere * 1e3:.3f} ms, {found.peer} {found.theirs_elsewhere * 1e3:.3f}"
    return f"<h2>Beside {escape(found.peer)}</h2>{table}<p>All other layers: {rest} ms.</p>"


def _table(profile: Profile) -> str:
    rows = [(*cells.of_row(row, profile), row.config) for row in profile.rows]
    return html_table((*cells.TEXTS, *cells.NUMBERS, cells.CONFIG), rows, cells.NUMBERS)


def _hint(row: ProfileRow, profile: Profile) -> str:
    share = row.call.seconds / profile.wall
    name = f"{row.node} {row.what}".strip()
    return escape(f"{name}: {row.call.seconds * 1e3:.3f} ms, {share:.1%}, {row.algorithm}")


def _log_share(value: float, low: float, high: float) -> float:
    return math.log(max(value, low) / low) / math.log(high / low)
