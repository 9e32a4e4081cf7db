"""How counts read in lines for people."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """The count with its noun: `1 kernel`, `2 kernels`; `plural` where an s alone does not make it."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
