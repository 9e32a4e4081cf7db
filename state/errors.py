"""What can go wrong that is nobody's kernel's fault.

    WarpsmithError
    ├── InvalidProblem    the problem file cannot be judged; names the file and the fault
    ├── InvalidInput      a command's other input is wrong (candidate file, option, run folder)
    └── InfraError        the harness, the GPU or the machine failed; never a candidate's fault

A bad candidate is never an exception: it is an `Evaluation`.
"""


class WarpsmithError(Exception):
    """Base of every error that Warpsmith raises on purpose. Its text is one line for a person."""


class InvalidProblem(WarpsmithError):
    """The problem file cannot be judged: it does not load, is random, constant or unsupported."""


class InvalidInput(WarpsmithError):
    """Something else that the user handed in is wrong."""


class InfraError(WarpsmithError):
    """The harness, the GPU or the machine failed; no candidate is to blame."""
