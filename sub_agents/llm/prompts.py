"""Prompts as templates on disk: rendered strictly, named together by one hash."""

import functools
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...state.base import digest

FOLDER = Path(__file__).parent.parent / "prompts"


@functools.cache
def environment() -> Environment:
    """Jinja over the prompts' folder; a name that a prompt uses and nobody gives is an error."""
    return Environment(  # noqa: S701 - prompts are plain text for a model, not pages
        loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def render(name: str, **values: object) -> str:
    """The prompt `name`.j2 with these values. Raises jinja2.UndefinedError for one that is missing."""
    return environment().get_template(f"{name}.j2").render(**values).strip("\n") + "\n"


@functools.cache
def version() -> str:
    """12 hex digits over all prompts: another prompt is another version."""
    return digest({path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.j2"))})[:12]
