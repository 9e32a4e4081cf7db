"""Curves of searches as one SVG: a panel a problem, a line a search."""

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#d1495b", "#2e86ab", "#3c9d5d", "#8e5ea2", "#e08e0b", "#5f6c7b", "#a0a0a0", "#b98b5e", "#1b1b1b")
PANEL_WIDTH, PANEL_HEIGHT, GAP, COLUMNS = 300.0, 180.0, 34.0, 3
LEAST_SPAN = 0.05
"""Of the axis: a panel where all are at the best is not blown up."""


def plot_svg(curves: Mapping[str, Mapping[str, Sequence[float]]], default: str) -> str:
    """`curves` holds by problem and search the share of the best after each evaluation; the default is drawn thick."""
    names = list(next(iter(curves.values()), {}))
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
    rows = -(-len(curves) // COLUMNS)
    width, height = COLUMNS * (PANEL_WIDTH + GAP) + GAP, rows * (PANEL_HEIGHT + GAP + 12) + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        f'font-size="11"><rect width="{width:g}" height="{height:g}" fill="#ffffff"/>'
    ]
    for index, name in enumerate(names):
        x = GAP + index * (width - 2 * GAP) / len(names)
        parts.append(f'<rect x="{x:.0f}" y="12" width="14" height="4" fill="{colours[name]}"/>')
        parts.append(f'<text x="{x + 18:.0f}" y="18">{escape(name)}</text>')
    for index, (problem, lines) in enumerate(curves.items()):
        left = GAP + (index % COLUMNS) * (PANEL_WIDTH + GAP)
        top = 50 + (index // COLUMNS) * (PANEL_HEIGHT + GAP + 12)
        parts += _panel(problem, lines, (left, top), colours, default)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _panel(
    problem: str,
    lines: Mapping[str, Sequence[float]],
    corner: tuple[float, float],
    colours: Mapping[str, str],
    default: str,
) -> list[str]:
    left, top = corner
    length = max(len(line) for line in lines.values())
    low = min(1 - LEAST_SPAN, min(line[min(4, len(line) - 1)] for line in lines.values()))

    def point(step: int, share: float) -> str:
        x = left + step / max(1, length - 1) * PANEL_WIDTH
        return f"{x:.1f},{top + (1 - (max(share, low) - low) / (1 - low)) * PANEL_HEIGHT:.1f}"

    bottom, right = top + PANEL_HEIGHT, left + PANEL_WIDTH
    parts = [
        f'<path d="M{left:g} {top:g}H{right:g}V{bottom:g}H{left:g}Z" fill="none" stroke="#c8c8c8"/>',
        f'<text x="{left:g}" y="{top - 5:g}" font-weight="bold">{escape(problem)}</text>',
        f'<text x="{left + 3:g}" y="{bottom - 4:g}" fill="#777777">{low:.0%} of the best</text>',
        f'<text x="{right:g}" y="{bottom + 13:g}" text-anchor="end">{length} evaluations</text>',
    ]
    for name, line in sorted(lines.items(), key=lambda pair: pair[0] == default):
        points = " ".join(point(step, share) for step, share in enumerate(line))
        stroke = 2.6 if name == default else 1.2
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colours[name]}" stroke-width="{stroke}"/>')
    return parts
