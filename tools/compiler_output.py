"""What compilers say of a kernel that they refuse: the decisive line, the first error whole, the rest trimmed.

Shapes: nvcc, NVRTC and ptxas (`file(12): error: ...`, `ptxas fatal : ...`, then the source and a caret), Triton (its
exception, `at 3:4:`, the source up to that place, a caret, the reason) and plain Python exceptions.
"""

import re

_SHOWN_CHARACTERS = 4000
_FIRST_ERROR_CHARACTERS = 2000
_LINE_CHARACTERS = 500
_ERROR = re.compile(r"\b(?:error|fatal)\b\s*:")
_TRITON = re.compile(r"^\w*(?:CompilationError|AssertionFailure): ")
_NEXT = re.compile(
    r"\b(?:error|fatal|warning|remark|note)\b(?:\s+#[\w-]+)?\s*:|^\d+ errors? detected|^\w+(?:Error|Failure): "
)
_PLACE = re.compile(r"^\s*line \d+: ")
"""Where in the candidate an exception was raised, as the compile worker adds it."""


def decisive_line(text: str) -> str:
    """The one line of a compiler's output that says what is wrong, at most 500 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "the compiler gave no reason"
    if _TRITON.match(lines[0]):
        block = [line for line in first_error(text).splitlines() if line.strip() and not _PLACE.match(line)]
        place, reason = lines[0].partition(": ")[2], block[-1].strip()
        return f"{place} {reason}"[:_LINE_CHARACTERS] if len(block) > 1 else place[:_LINE_CHARACTERS]
    named = next((line for line in lines if _ERROR.search(line)), None)
    if named is not None:
        # NVRTC names a temporary file; its line is all that matters.
        return re.sub(r"\S*/[^\s/(]*\((\d+)\)", r"line \1", named[:2000])[:_LINE_CHARACTERS]
    return lines[0][:_LINE_CHARACTERS]


def first_error(text: str) -> str:
    """The first error with what belongs to it (source, caret, reason); empty where none is recognised."""
    start, end = _span(text)
    return text[start:end]


def trimmed(text: str) -> str:
    """Head and tail of a compiler's output around its first error, which stays whole (a huge one loses its middle)."""
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    start, end = _span(text)
    error = _shortened(text[start:end], _FIRST_ERROR_CHARACTERS)
    side = (_SHOWN_CHARACTERS - len(error)) // 2
    return "\n".join(part for part in (_shortened(text[:start], side), error, _shortened(text[end:], side)) if part)


def _span(text: str) -> tuple[int, int]:
    """Where the first error starts and ends; (0, 0) where none is recognised."""
    position, start, triton = 0, None, False
    for line in text.splitlines(keepends=True):
        if start is None and (_TRITON.match(line) or _ERROR.search(line)):
            start, triton = position, bool(_TRITON.match(line))
        elif start is not None and (_NEXT.search(line) if not triton else re.match(r"^\w+(?:Error|Failure): ", line)):
            return start, position
        position += len(line)
    return (0, 0) if start is None else (start, len(text))


def _shortened(text: str, most: int) -> str:
    """Both ends of a text that is longer than `most` characters."""
    if len(text) <= most:
        return text.strip("\n")
    half = most // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}".strip("\n")
