"""How counts and estimates read in lines for people."""

NOT_COMPARED = "only compiled, never compared with the reference: CUDA C++ does not run without a GPU"


def counted(count: int, noun: str, plural: str = "") -> str:
    """The count with its noun: `1 kernel`, `2 kernels`; `plural` where an s alone does not make it."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def estimated(sol_fraction: float) -> str:
    """What a dry run says of a kernel: there is no speedup where nothing is timed."""
    return f"an estimated {100 * sol_fraction:.3g}% of the speed of light"
