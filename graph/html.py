"""report.html: one self-contained page."""

from collections.abc import Mapping

from ..state.trajectory import Result


def render_html(result: Result, sources: Mapping[str, str]) -> str:
    """The page. TODO template."""
    return f"<pre>{result.best}</pre>"
