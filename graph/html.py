"""report.html: one self-contained page that needs no network. Everything that it shows is escaped by the template."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..state.trajectory import Result
from ..state.wording import NOT_COMPARED, counted
from .evidence_lines import evidence_lines
from .plot import trajectory_plot
from .spending import spending_lines

TEMPLATE = "report.html.j2"


def render_html(result: Result, source: str) -> str:
    """The page for a result; `source` is the winner's file, empty where there is none."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["ms"] = lambda value: "–" if value is None else f"{value:.4g} ms"
    environment.filters["times"] = lambda value: "–" if value is None else f"{value:.3g}×"
    environment.filters["percent"] = lambda value: "–" if value is None else f"{value:.0%}"
    environment.filters["counted"] = counted
    plot = trajectory_plot(result.trajectory, unit="" if result.dry_run else "×")
    models_lines = spending_lines(result.models) if result.models else []
    evidence = list(evidence_lines(result.evidence)) if result.evidence else []
    template = environment.get_template(TEMPLATE)
    shown = {"plot": plot, "source": source, "models_lines": models_lines, "evidence_lines": evidence}
    return template.render(result=result, not_compared=NOT_COMPARED, **shown)
