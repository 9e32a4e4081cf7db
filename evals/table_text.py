"""How the README's tables write numbers, rows and where something was measured."""

from typing import Any

NOT_MEASURED = "Not measured yet."


def number(value: float | None, digits: int = 3) -> str:
    """At least `digits` significant digits, never in scientific notation; a dash for None."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.6f}".rstrip("0") if "e" in text else text


def markdown(head: list[str], rows: list[list[str]], words: int = 1) -> str:
    """A table whose first columns, as many as `words` says, are text and whose others are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * words + "---:|" * (len(head) - words)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def measured_on(content: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(content.get("versions", {}).items()))
    return f"{content.get('gpu', 'unknown GPU')}; {versions}; {_commits(content)}."


def _commits(content: dict[str, Any]) -> str:
    """Every commit that some row was measured at: a file may hold rows of several runs."""
    found = content.get("commits") or [content.get("commit", "unknown")]
    return f"commit{'s' if len(found) > 1 else ''} {', '.join(str(each)[:12] for each in found)}"
