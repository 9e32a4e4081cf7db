"""Taking out what a model thought aloud before it answered."""

import re

NAMES = "think|thinking|thought|reasoning|scratchpad"
CLOSED = re.compile(rf"<({NAMES})>.*?</\1>", re.DOTALL | re.IGNORECASE)
OPENING = re.compile(rf"^[ \t]*<({NAMES})>", re.MULTILINE | re.IGNORECASE)
CLOSING = re.compile(rf"</({NAMES})>[ \t]*$", re.MULTILINE | re.IGNORECASE)


def without_thinking(text: str) -> str:
    """The text without thoughts: closed ones, ones whose opening tag the server kept, and ones that never end.

    An unclosed thought takes the rest of the text with it: what it holds was not handed in.
    """
    text = CLOSED.sub("", text)
    closings = list(CLOSING.finditer(text))
    if closings:
        text = text[closings[-1].end() :]
    opening = OPENING.search(text)
    return (text[: opening.start()] if opening else text).strip("\n")
