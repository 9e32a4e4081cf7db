"""What a candidate's process may answer, by request: shapes of claims, never their truth.

An answer that does not fit would break the judge where it is read, and the blame would fall on the machine.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

_Time = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Claim(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Weight(_Claim):
    name: str
    shape: list[int]
    fingerprint: list[float]


class _Output(_Claim):
    shape: list[int]
    dtype: str
    type: str
    device: str


class _Constructed(_Claim):
    state: list[_Weight]
    setup_ms: FiniteFloat


class _Loaded(_Claim):
    setup_ms: FiniteFloat


class _Delivered(_Claim):
    structure: Any
    specs: list[_Output]


class _Called(_Delivered):
    ms: _Time
    host_ms: _Time
    total_ms: _Time = 0.0
    late: bool = False
    overrun: str = ""


class _Traced(_Claim):
    kernels: dict[str, _Time]


_BY_REQUEST: dict[str, type[_Claim]] = {
    "construct": _Constructed,
    "weights": _Loaded,
    "call": _Called,
    "burst": _Delivered,
    "trace": _Traced,
}


def fault_of(request: str, answer: dict[str, Any]) -> str:
    """What is wrong with the form of an answer, in one line; empty if nothing."""
    form = _BY_REQUEST.get(request)
    if form is None:
        return ""
    try:
        form.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place}: {first['msg']}"[:200]
    return ""
