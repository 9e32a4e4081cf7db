"""Characters that a model's text may hold and a source file must not."""

import re
from typing import Any

SPACES = dict.fromkeys(map(ord, "\u00a0\u1680\u202f\u205f\u3000"), " ") | {code: " " for code in range(0x2000, 0x200B)}
INVISIBLE = dict.fromkeys(
    [0, 0xFEFF, 0x00AD, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A)]
)
"""Null, byte order mark, soft hyphen, zero-width characters, and those that change the direction of text."""
LINE_ENDS = re.compile(r"\r\n?|[\u2028\u2029\u0085]")
CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
SURROGATES = re.compile(r"[\ud800-\udfff]")


def encodable(text: str) -> str:
    """Text that can be written as UTF-8: halves of a character are joined, lone ones become a question mark."""
    if not SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\ufffd", "?")


def cleaned(text: str) -> str:
    """Text with ordinary spaces and line ends, without invisible and control characters and lone surrogates."""
    text = LINE_ENDS.sub("\n", encodable(text)).translate(SPACES | INVISIBLE)
    return CONTROLS.sub("", text)


def cleaned_values(value: Any) -> Any:
    """A JSON value with every text in it made encodable."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [cleaned_values(item) for item in value]
    if isinstance(value, dict):
        return {encodable(str(name)): cleaned_values(item) for name, item in value.items()}
    return value
