"""Prints the pointwise vocabulary of kernel programs as CUDA C++ with PyTorch's semantics.

float16 and bfloat16 are computed in float; only `cast` and stores round. Without `fast_math` every function is
CUDA's accurate one (a few ulp). The functions that are not C++ or CUDA come from `cuda_math.cu.j2`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...state.program import Statement
from .cuda_names import identifier, pointer_of
from .cuda_types import STORAGE, compute_type, converted, is_float, literal, promoted, size_text

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_LOGICAL = {"logical_and": "&&", "logical_or": "||", "logical_xor": "!="}
# Functions with a float version (suffix f) and a double version of the C library's name.
_LIBRARY = {
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log2": "log2",
    "log1p": "log1p",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
    "erf": "erf",
    "floor": "floor",
    "ceil": "ceil",
    "round": "rint",
    "trunc": "trunc",
}
_FAST = {"exp": "fast_exp", "log": "__logf", "tanh": "fast_tanh", "erf": "fast_erf"}
_SAME_FOR_INTEGERS = {"floor", "ceil", "round", "trunc"}
_HELPERS = {
    "maximum": "maximum",
    "minimum": "minimum",
    "fmod": "c_remainder",
    "remainder": "floor_remainder",
    "floor_div": "floor_divide",
    "pow": "power",
}

EXPENSIVE = (frozenset(_LIBRARY) - _SAME_FOR_INTEGERS) | {"sigmoid", "pow", "div", "reciprocal", "fmod", "remainder"}
"""Operators worth keeping in a register rather than computing again in a later pass."""


@dataclass(frozen=True)
class Printer:
    """Prints statements over named values of known dtypes."""

    dtypes: Mapping[str, str]
    """Dtype of every load and statement, by program name. A name that is missing is a symbolic size."""
    fast_math: bool = False
    """`fast_exp`, `__logf` and `fast_divide` for float, and what is made of them: relative errors of 4e-6 at most, of
    |x| ulp for exp. Hidden by the rounding of a half result."""
    names: Mapping[str, str] = field(default_factory=dict)
    """C++ identifiers that differ from `identifier(name)`."""
    shared_divisors: frozenset[str] = frozenset()
    """Quotients, by name, whose divisor is the same for many points: one reciprocal serves all of them."""
    raised_tanh: Mapping[str, str] = field(default_factory=dict)
    """Sums, by name, that are 1 + tanh(x), with the name of x."""

    def declaration(self, statement: Statement) -> str:
        """`const float name = ...;`"""
        return f"const {compute_type(statement.dtype)} {self.name(statement.name)} = {self.expression(statement)};"

    def name(self, name: str) -> str:
        """The C++ identifier of a load or statement."""
        return self.names.get(name) or identifier(name)

    def expression(self, statement: Statement) -> str:
        """The statement's value in its dtype's compute type. Raises ValueError for an operator without a printer."""
        op, dtype = statement.op, statement.dtype
        if op == "cast":
            return self._cast(statement)
        if op == "where":
            condition, a, b = statement.args
            return f"{self.operand(condition, 'bool')} ? {self.operand(a, dtype)} : {self.operand(b, dtype)}"
        if op == "clamp":
            return self._clamp(statement)
        if op == "gather":
            return self._gathered(statement)
        if op in _COMPARISONS or op in _LOGICAL or op in ("logical_not", "isnan", "isinf"):
            return self._predicate(statement)
        if len(statement.args) == 1:
            return self._unary(op, self.operand(statement.args[0], dtype), dtype)
        if len(statement.args) == 2:
            return self._binary(statement)
        raise ValueError(f"no CUDA printer for {op} with {len(statement.args)} operands")

    def operand(self, arg: str | bool | int | float, dtype: str) -> str:
        """An argument in the compute type of `dtype`."""
        if not isinstance(arg, str):
            return literal(arg, dtype)
        if arg in self.dtypes:
            return converted(self.name(arg), self.dtypes[arg], dtype)
        if dtype == "index":
            return f"({size_text(arg)})"
        return converted(f"({size_text(arg, 'long long')})", "int64", dtype)

    def stored(self, name: str, dtype: str) -> str:
        """A value rounded to the storage type of `dtype`."""
        if dtype == "bool":
            return f"(unsigned char)({self.operand(name, 'bool')})"
        if dtype in ("float16", "bfloat16"):
            return f"to_{dtype}({self.operand(name, 'float32')})"
        return self.operand(name, dtype)

    def _cast(self, statement: Statement) -> str:
        text, dtype = self.operand(statement.args[0], statement.dtype), statement.dtype
        source = statement.args[0]
        rounds = dtype in ("float16", "bfloat16") and not (isinstance(source, str) and self.dtypes.get(source) == dtype)
        return f"to_float(to_{dtype}({text}))" if rounds else text

    def _gathered(self, statement: Statement) -> str:
        """Lanes past the end of the space compute with any index: the bound holds for them too."""
        kind = self.dtypes.get(str(statement.args[0]), "index")
        index, guard = self.operand(statement.args[0], kind), self.operand(statement.args[1], "bool")
        bound = f"({compute_type(kind)})({size_text(statement.extent, compute_type(kind))})"
        return read(statement.dtype, f"gathered({pointer_of(statement.table)}, {index}, {guard}, {bound})")

    def _clamp(self, statement: Statement) -> str:
        x, low, high = statement.args
        text = self.operand(x, statement.dtype)
        if low != float("-inf"):
            text = f"maximum({text}, {self.operand(low, statement.dtype)})"
        if high != float("inf"):
            text = f"minimum({text}, {self.operand(high, statement.dtype)})"
        return text

    def _predicate(self, statement: Statement) -> str:
        op, args = statement.op, statement.args
        if op in _LOGICAL:
            return f"{self.operand(args[0], 'bool')} {_LOGICAL[op]} {self.operand(args[1], 'bool')}"
        if op == "logical_not":
            return f"!{self.operand(args[0], 'bool')}"
        common = self._common(args)
        first = self.operand(args[0], common)
        if op == "isnan":
            return f"{first} != {first}" if is_float(common) else "false"
        if op == "isinf":
            infinity = f"infinity<{compute_type(common)}>()"
            return f"{first} == {infinity} || {first} == -{infinity}" if is_float(common) else "false"
        return f"{first} {_COMPARISONS[op]} {self.operand(args[1], common)}"

    def _common(self, args: tuple[str | bool | int | float, ...]) -> str:
        """The dtype that operands are compared in: a literal only raises the category, as in PyTorch."""
        sized = "index" if any(self.dtypes.get(str(a)) == "index" for a in args) else "int64"
        dtypes = [self.dtypes.get(a, sized) for a in args if isinstance(a, str)]
        literals = [a for a in args if not isinstance(a, str)]
        common = promoted(dtypes or ["float64"])
        if any(isinstance(a, float) for a in literals) and not is_float(common):
            return "float32"
        if any(not isinstance(a, bool) for a in literals) and common == "bool":
            return "int64"
        return common

    def _unary(self, op: str, x: str, dtype: str) -> str:  # noqa: C901 - one case an operator
        kind, fast = compute_type(dtype), self.fast_math and compute_type(dtype) == "float"
        one = literal(1, dtype)
        if op in _LIBRARY:
            if not is_float(dtype):
                return x if op in _SAME_FOR_INTEGERS else _unknown(op, dtype)
            if fast and op in _FAST:
                return f"{_FAST[op]}({x})"
            return f"{_LIBRARY[op]}{'f' if kind == 'float' else ''}({x})"
        if op == "neg":
            return _narrow(f"-{x}", dtype)
        if op == "abs":
            return f"{'fabsf' if kind == 'float' else 'fabs'}({x})" if is_float(dtype) else f"absolute({x})"
        if op == "square":
            return _narrow(f"{x} * {x}", dtype)
        if op == "reciprocal":
            return f"fast_divide({one}, {x})" if fast else f"{one} / {x}"
        if op == "sigmoid":
            return f"fast_sigmoid({x})" if fast else f"sigmoid({x})"
        if op == "relu":
            return f"maximum({x}, {literal(0, dtype)})"
        if op == "sign":
            return _narrow(f"({x} > 0) - ({x} < 0)", dtype) if not is_float(dtype) else f"{kind}(({x} > 0) - ({x} < 0))"
        if op == "bitwise_not":
            return f"!{x}" if dtype == "bool" else _narrow(f"~{x}", dtype)
        return _unknown(op, dtype)

    def _binary(self, statement: Statement) -> str:
        op, dtype = statement.op, statement.dtype
        if self.fast_math and statement.name in self.raised_tanh:
            return f"fast_raised_tanh({self.operand(self.raised_tanh[statement.name], dtype)})"
        if op == "pow" and not isinstance(statement.args[1], str):
            text = self._literal_power(statement.args[0], statement.args[1], dtype)
            if text:
                return text
        a, b = (self.operand(arg, dtype) for arg in statement.args)
        if dtype == "index" and op in ("floor_div", "remainder"):
            return f"{a} {'/' if op == 'floor_div' else '%'} {b}"
        if op in _INFIX:
            return _narrow(f"{a} {_INFIX[op]} {b}", dtype)
        if op == "div" and compute_type(dtype) == "float":
            if self.fast_math:
                return f"fast_divide({a}, {b})"
            return f"divide_by({a}, {b})" if statement.name in self.shared_divisors else f"{a} / {b}"
        if op == "div":
            return f"{a} / {b}"
        if op in _HELPERS:
            kind = compute_type(dtype)
            return f"{_HELPERS[op]}<{kind}>({a}, {b})" if op not in ("maximum", "minimum") else f"{op}({a}, {b})"
        return _unknown(op, dtype)

    def _literal_power(self, base: str | bool | int | float, exponent: bool | int | float, dtype: str) -> str:
        """Powers that are products or roots; empty for others."""
        x = self.operand(base, dtype)
        if exponent in (1, 2, 3, 4):
            return _narrow(" * ".join([x] * int(exponent)), dtype)
        if not is_float(dtype):
            return ""
        suffix, one = "f" if compute_type(dtype) == "float" else "", literal(1, dtype)
        return {
            0: one,
            0.5: f"sqrt{suffix}({x})",
            -0.5: f"rsqrt{suffix}({x})",
            -1: f"{one} / {x}",
            -2: f"{one} / ({x} * {x})",
        }.get(exponent, "")


def read(dtype: str, raw: str) -> str:
    """A stored element in its compute type: `to_float(raw)` for the half types."""
    if dtype in ("float16", "bfloat16"):
        return f"to_float({raw})"
    return f"({raw} != 0)" if dtype == "bool" else raw


def zero(dtype: str) -> str:
    """A stored zero."""
    return f"{STORAGE[dtype]}{{}}"


def _narrow(text: str, dtype: str) -> str:
    """C++ computes small integers as int; PyTorch wraps them at their own width."""
    kind = compute_type(dtype)
    return f"({kind})({text})" if kind in ("short", "signed char", "unsigned char", "bool") else text


def _unknown(op: str, dtype: str) -> str:
    raise ValueError(f"no CUDA printer for {op} of {dtype}")
