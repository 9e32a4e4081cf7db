"""Prints the scalar vocabulary of kernel programs as Triton expressions with PyTorch's semantics.

NaN propagates through maximum, minimum, relu and clamp; integer division and remainder follow Python's sign rules;
float16 and bfloat16 compute in float32; transcendental functions are accurate to a few ulp unless `exact` is off.
"""

from dataclasses import dataclass, field
from math import frexp, inf, isinf, isnan

from ...state.program import BINARY, OTHER, TERNARY, UNARY
from . import triton_prelude

TYPES = {
    "float64": "tl.float64",
    "float32": "tl.float32",
    "float16": "tl.float16",
    "bfloat16": "tl.bfloat16",
    "int64": "tl.int64",
    "int32": "tl.int32",
    "int16": "tl.int16",
    "int8": "tl.int8",
    "uint8": "tl.uint8",
    "bool": "tl.int1",
    "index": "tl.int32",
}
"""Triton's names of the dtypes that kernels can hold. An index is wider where the kernel's own are."""

HALVES = ("float16", "bfloat16")
_FLOATS = ("float32", "float64", *HALVES)
_WIDTH_ORDER = ("bool", "uint8", "int8", "int16", "int32", "index", "int64", "float32", "float64")
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_LOGICAL = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}
_ON_BOOLS = {"add": "|", "mul": "&", "maximum": "|", "minimum": "&", "sub": "^"}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
_ACCURATE = ("exp2", "expm1", "log2", "log1p", "sin", "cos")

Literal = bool | int | float


@dataclass(frozen=True)
class Term:
    """An operand: its text, its dtype in the kernel, and its value where it is a literal."""

    text: str
    dtype: str
    literal: Literal | None = None


def computed(dtype: str) -> str:
    """The dtype that a value of `dtype` has inside a kernel: halves are widened."""
    return "float32" if dtype in HALVES else dtype


def is_float(dtype: str) -> bool:
    return dtype in _FLOATS


def literal(value: Literal) -> Term:
    """A literal operand, with the type that Python's kind gives it."""
    kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    return Term(text=_number(value, kind), dtype=kind, literal=value)


def _number(value: Literal, dtype: str) -> str:
    if dtype == "bool":
        return str(bool(value))
    if not is_float(dtype):
        return str(int(value))
    number = float(value)
    return f'float("{number}")' if isinf(number) or isnan(number) else repr(number)


def _is_power_of_two(value: Literal) -> bool:
    return value > 0 and frexp(float(value))[0] == 0.5


def _has_inverse(value: Literal, dtype: str) -> bool:
    """Whether dividing by the number is multiplying by its inverse, as PyTorch does on GPUs."""
    return dtype == "float32" and not isinstance(value, bool) and 1e-30 < abs(float(value)) < 1e30


@dataclass
class Printer:
    """Prints expressions and remembers which device functions they call.

    `unit` is the shape of a scalar with the kernel's number of dimensions, such as `[1, 1]`. With `exact` off, `exp`,
    `tanh` and division use the hardware's approximations: fit for results that are rounded to half types.
    """

    unit: str = "[1, 1]"
    exact: bool = True
    used: dict[str, None] = field(default_factory=dict)

    def call(self, function: str, *arguments: str) -> str:
        """A call of a device function from the prelude."""
        self.used[function] = None
        return f"device_{function}({', '.join(arguments)})"

    def prelude(self) -> list[str]:
        """Sources of the device functions used so far."""
        return triton_prelude.sources(self.used)

    def imports(self) -> tuple[str, ...]:
        """Import lines that the prelude needs."""
        lines = ("import triton", "import triton.language as tl")
        return (*lines, triton_prelude.LIBDEVICE_IMPORT) if triton_prelude.needs_libdevice(self.used) else lines

    def full(self, value: str, dtype: str) -> str:
        """A scalar as a tensor."""
        return f"tl.full({self.unit}, {value}, {TYPES[dtype]})"

    def convert(self, term: Term, dtype: str) -> str:
        """The operand as `dtype` (one that `computed` can give); literals stay literals."""
        if term.literal is not None:
            return _number(term.literal, dtype)
        if dtype in (term.dtype, "index"):
            return term.text
        if dtype == "bool":
            return f"({term.text} != 0)"
        return f"{term.text}.to({TYPES[dtype]})"

    def tensor(self, term: Term, dtype: str) -> str:
        """As `convert`, but never a bare literal."""
        text = self.convert(term, dtype)
        return text if term.literal is None else self.full(text, dtype)

    def expression(self, op: str, dtype: str, terms: tuple[Term, ...]) -> str:
        """The value of one statement, in the dtype `computed(dtype)`. Raises KeyError for an unknown operator."""
        result = computed(dtype)
        if op == "cast":
            return self._cast(dtype, terms[0])
        if op in UNARY:
            return self._unary(op, result, terms[0])
        if op in TERNARY:
            return self._where(result, terms) if op == "where" else self._clamp(result, terms)
        return self._binary(op, result, terms)

    def _cast(self, dtype: str, term: Term) -> str:
        text = self.tensor(term, computed(dtype))
        return f"{text}.to({TYPES[dtype]}).to(tl.float32)" if dtype in HALVES else text

    def _unary(self, op: str, dtype: str, term: Term) -> str:
        own = computed(term.dtype)
        if op == "logical_not":
            return f"{self.tensor(term, own)} == 0"
        if op == "bitwise_not":
            text = self.tensor(term, own)
            return f"{text} == 0" if own == "bool" else f"~{text}"
        if op in ("isnan", "isinf"):
            text = self.tensor(term, own)
            if not is_float(own):
                return f"{text} != {text}"
            return f"{text} != {text}" if op == "isnan" else f'tl.abs({text}) == float("inf")'
        x = self.tensor(term, dtype)
        if not is_float(dtype):
            return self._integer_unary(op, x)
        return self._float_unary(op, dtype, x)

    def _integer_unary(self, op: str, x: str) -> str:
        return {
            "neg": f"-{x}",
            "abs": f"tl.abs({x})",
            "relu": f"tl.maximum({x}, 0)",
            "square": f"{x} * {x}",
            "sign": f"tl.where({x} > 0, 1, tl.where({x} < 0, -1, 0)).to({x}.dtype)",
            **dict.fromkeys(("floor", "ceil", "round", "trunc"), x),
        }[op]

    def _float_unary(self, op: str, dtype: str, x: str) -> str:
        if op in _ACCURATE:
            return self.call(op, x)
        if op == "log":
            return self.call("log", x)
        if op == "exp":
            return self.exp(x, dtype)
        if op == "tanh":
            return self.call("tanh" if self.exact or dtype == "float64" else "fast_tanh", x)
        if op == "sigmoid":
            # The denominator is at least 1 and the exponential off by a unit already: a division of two units will do.
            below = f"(1.0 + {self.exp(f'-{x}', dtype)})"
            return f"1.0 / {below}" if self.exact else self.divide(self.full("1.0", dtype), below, dtype)
        if op == "reciprocal":
            return self.divide(self.full("1.0", dtype), x, dtype)
        if op == "relu":
            return self.call("max", x, "0.0")
        if op in ("round", "trunc"):
            return self.call("rint" if op == "round" else "trunc", x)
        if op == "sqrt":
            return f"tl.sqrt_rn({x})" if self.exact and dtype == "float32" else f"tl.sqrt({x})"
        return {
            "neg": f"-{x}",
            "square": f"{x} * {x}",
            "sign": f"tl.where({x} > 0, 1.0, tl.where({x} < 0, -1.0, 0.0)).to({TYPES[dtype]})",
            **{name: f"tl.{name}({x})" for name in ("abs", "rsqrt", "erf", "floor", "ceil")},
        }[op]

    def exp(self, x: str, dtype: str = "float32") -> str:
        """e to the power of a float tensor."""
        return self.call("exp" if self.exact or dtype == "float64" else "fast_exp", x)

    def divide(self, x: str, y: str, dtype: str = "float32") -> str:
        """Quotient of two float tensors."""
        if dtype != "float32":
            return f"{x} / {y}"
        return f"tl.div_rn({x}, {y})" if self.exact else self.call("fast_div", x, y)

    def _binary(self, op: str, dtype: str, terms: tuple[Term, ...]) -> str:
        if op in _COMPARISONS:
            x, y = self._aligned(terms)
            return f"{x} {_COMPARISONS[op]} {y}"
        if op in _LOGICAL:
            x, y = (self.tensor(term, "bool") for term in terms)
            return f"{x} {_LOGICAL[op]} {y}"
        x, y = self._pair(terms, dtype)
        if op in _BITWISE:
            return f"{x} {_BITWISE[op]} {y}"
        if dtype == "bool":
            return f"{x} {_ON_BOOLS[op]} {y}"
        if op in _ARITHMETIC:
            return f"{x} {_ARITHMETIC[op]} {y}"
        if op in ("maximum", "minimum"):
            short = op[:3]
            return self.call(short, x, y) if is_float(dtype) else f"tl.{op}({x}, {y})"
        return self._division_or_power(op, dtype, terms)

    def _division_or_power(self, op: str, dtype: str, terms: tuple[Term, ...]) -> str:
        if op == "pow":
            return self._pow(dtype, terms)
        if op == "div":
            by = terms[1].literal
            if by is not None and (_is_power_of_two(by) or _has_inverse(by, dtype)):
                return f"{self.tensor(terms[0], dtype)} * {_number(1 / by, dtype)}"
            x, y = (self.tensor(term, dtype) for term in terms)
            return self.divide(x, y, dtype)
        if dtype == "index":
            x, y = (self.convert(term, dtype) for term in terms)
            return f"{x} // {y}" if op == "floor_div" else f"{x} % {y}"
        x, y = (self.tensor(term, dtype) for term in terms)
        if is_float(dtype):
            return self.call(op, x, y)
        return f"{x} % {y}" if op == "fmod" else self.call(f"int_{op}", x, y)

    def _pow(self, dtype: str, terms: tuple[Term, ...]) -> str:
        exponent = terms[1].literal
        x = self.tensor(terms[0], dtype)
        if exponent is not None and float(exponent).is_integer() and 1 <= exponent <= 4:
            square = f"({x} * {x})"
            return {1: x, 2: square, 3: f"{square} * {x}", 4: f"{square} * {square}"}[int(exponent)]
        if exponent is not None and not isinstance(exponent, bool) and is_float(dtype):
            if exponent == 0:
                return self.full("1.0", dtype)
            special = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(float(exponent))
            if special:
                return self._float_unary(special, dtype, x)
        if not is_float(dtype):
            raise KeyError("pow of integers with this exponent")
        return self.call("pow", x, self.tensor(terms[1], dtype))

    def _where(self, dtype: str, terms: tuple[Term, ...]) -> str:
        condition = self.tensor(terms[0], "bool")
        # Two literals would make an integer of Triton's choosing.
        x = self.tensor(terms[1], dtype) if terms[2].literal is not None else self.convert(terms[1], dtype)
        return f"tl.where({condition}, {x}, {self.convert(terms[2], dtype)})"

    def _clamp(self, dtype: str, terms: tuple[Term, ...]) -> str:
        text = self.tensor(terms[0], dtype)
        for bound, missing, short in ((terms[1], -inf, "max"), (terms[2], inf, "min")):
            if bound.literal == missing:
                continue
            limit = self.convert(bound, dtype)
            text = self.call(short, text, limit) if is_float(dtype) else f"tl.{short}imum({text}, {limit})"
        return text

    def _pair(self, terms: tuple[Term, ...], dtype: str) -> tuple[str, str]:
        x, y = terms
        left = self.tensor(x, dtype) if y.literal is not None else self.convert(x, dtype)
        return left, self.convert(y, dtype)

    def _aligned(self, terms: tuple[Term, ...]) -> tuple[str, str]:
        """Both operands in the narrowest dtype that holds the tensors among them; floats win over integers."""
        tensors = [term.dtype for term in terms if term.literal is None]
        dtype = max(tensors or [term.dtype for term in terms], key=_WIDTH_ORDER.index)
        fractional = any(isinstance(term.literal, float) for term in terms)
        if fractional and not is_float(dtype):
            dtype = "float32"
        if dtype == "bool" and any(term.literal is not None for term in terms):
            dtype = "int32"
        return self._pair(terms, dtype)


def prints(op: str, dtype: str, terms: tuple[Term, ...]) -> bool:
    """Whether an operator of the vocabulary has a Triton form for these operands."""
    if op not in (*UNARY, *BINARY, *TERNARY, *OTHER):
        return False
    try:
        return op in ("iota", "gather") or bool(Printer().expression(op, dtype, terms))
    except KeyError:
        return False
