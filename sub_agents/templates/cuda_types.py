"""How values of each dtype are stored, computed and written down in CUDA C++."""

import math

from ...state.sizes import Size, factors

STORAGE = {
    "float32": "float",
    "float64": "double",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "unsigned char",
}
"""C++ type of one element in memory. `float16` and `bfloat16` are structs of the device prelude."""

_COMPUTE = {**STORAGE, "float16": "float", "bfloat16": "float", "bool": "bool", "index": "index_t"}
_RANK = ("bool", "uint8", "int8", "int16", "int32", "index", "int64", "float16", "bfloat16", "float32", "float64")
_INTEGER_RANGE = {"int64": 64, "int32": 32, "int16": 16, "int8": 8}


def compute_type(dtype: str) -> str:
    """C++ type that arithmetic on a dtype uses: float for the half types."""
    return _COMPUTE[dtype]


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def promoted(dtypes: list[str]) -> str:
    """The dtype that operands of these dtypes are compared in; half types become float32."""
    widest = max(dtypes, key=_RANK.index)
    if widest == "int8" and "uint8" in dtypes:
        return "int16"
    return "float32" if widest in ("float16", "bfloat16") else widest


def literal(value: bool | int | float, dtype: str) -> str:
    """A Python number as a C++ constant of a dtype's compute type."""
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return _integer(int(value), dtype)
    number, suffix = float(value), "" if dtype == "float64" else "f"
    if math.isnan(number):
        return f"not_a_number<{compute_type(dtype)}>()"
    if math.isinf(number) or (suffix and abs(number) > 3.4028235677973366e38):
        return ("-" if number < 0 else "") + f"infinity<{compute_type(dtype)}>()"
    return f"{number!r}{suffix}" if number >= 0 else f"({number!r}{suffix})"


def _integer(value: int, dtype: str) -> str:
    bits = _INTEGER_RANGE.get(dtype)
    if bits and value == -(2 ** (bits - 1)) and bits >= 32:
        suffix = "LL" if dtype == "int64" else ""
        return f"({value + 1}{suffix} - 1)"
    if dtype in ("int16", "int8", "uint8"):
        return f"({STORAGE[dtype]})({value})"
    text = f"{value}LL" if dtype == "int64" else str(value)
    return f"({text})" if value < 0 else text


def converted(text: str, source: str, target: str) -> str:
    """`text` of dtype `source` in the compute type of `target`; nothing is rounded to half."""
    have, want = compute_type(source), compute_type(target)
    if have == want:
        return text
    if want == "bool":
        return f"({text} != 0)"
    return f"({want})({text})" if want in ("long long", "signed char", "unsigned char") else f"{want}({text})"


def lowest(dtype: str) -> str:
    """The identity of a maximum."""
    if is_float(dtype):
        return literal(-math.inf, dtype)
    return literal(0 if dtype in ("uint8", "bool") else -(2 ** (_INTEGER_RANGE[dtype] - 1)), dtype)


def highest(dtype: str) -> str:
    """The identity of a minimum."""
    if is_float(dtype):
        return literal(math.inf, dtype)
    bits = {"uint8": 8, "bool": 1}.get(dtype)
    return literal(2**bits - 1 if bits else 2 ** (_INTEGER_RANGE[dtype] - 1) - 1, dtype)


def size_text(size: Size, type_name: str = "index_t") -> str:
    """A size as a C++ expression of an integer type; symbols are kernel arguments of the same name."""
    coefficient, symbols = factors(size)
    if not symbols:
        return str(coefficient)
    typed = [s if type_name == "index_t" else f"({type_name}){s}" for s in symbols]
    return " * ".join(([str(coefficient)] if coefficient != 1 else []) + typed)
