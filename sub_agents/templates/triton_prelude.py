"""Device functions that rendered Triton kernels call, as source text.

Accurate functions come from CUDA's libdevice, which PyTorch's own kernels use too, so that a candidate's error is the
reference's. Triton's interpreter has no libdevice: there the same name is a definition through float64.
"""

from collections.abc import Iterable

_INTERPRETED = {
    "exp": "tl.exp(x.to(tl.float64)).to(x.dtype)",
    "exp2": "tl.exp2(x.to(tl.float64)).to(x.dtype)",
    "log": "tl.log(x.to(tl.float64)).to(x.dtype)",
    "log2": "tl.log2(x.to(tl.float64)).to(x.dtype)",
    "sin": "tl.sin(x.to(tl.float64)).to(x.dtype)",
    "cos": "tl.cos(x.to(tl.float64)).to(x.dtype)",
    "expm1": "tl.where(tl.abs(x) < 1e-4, x + 0.5 * x * x, tl.exp(x.to(tl.float64)) - 1.0).to(x.dtype)",
    "log1p": "tl.where(tl.abs(x) < 1e-4, x - 0.5 * x * x, tl.log(x.to(tl.float64) + 1.0)).to(x.dtype)",
    "tanh": "tl.where(tl.abs(x) < 1e-3, x - x * x * x / 3.0, 2.0 / (1.0 + tl.exp(-2.0 * x.to(tl.float64))) - 1.0)"
    ".to(x.dtype)",
    "trunc": "tl.where(x < 0, tl.ceil(x), tl.floor(x))",
}

_WRAPPED = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_{name}(x):
        return {interpreted}

else:

    @triton.jit
    def device_{name}(x):
        return libdevice.{name}(x)
"""

_SOURCES = {name: _WRAPPED.format(name=name, interpreted=text) for name, text in _INTERPRETED.items()}

_SOURCES["rint"] = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_rint(x):
        low = tl.floor(x)
        odd = low - 2.0 * tl.floor(low * 0.5)
        return tl.where((x - low > 0.5) | ((x - low == 0.5) & (odd == 1.0)), low + 1.0, low)

else:

    @triton.jit
    def device_rint(x):
        return libdevice.rint(x)
"""

_SOURCES["fmod"] = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_fmod(x, y):
        quotient = x.to(tl.float64) / y.to(tl.float64)
        whole = tl.where(quotient < 0, tl.ceil(quotient), tl.floor(quotient))
        far = (tl.abs(y) == float("inf")) & (tl.abs(x) < float("inf"))
        return tl.where(far, x, x - whole * y).to(x.dtype)

else:

    @triton.jit
    def device_fmod(x, y):
        return libdevice.fmod(x, y)
"""

_SOURCES["pow"] = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_pow(x, y):
        size = tl.exp(y * tl.log(tl.abs(x).to(tl.float64)))
        odd = y - 2.0 * tl.floor(y * 0.5) == 1.0
        real = (x >= 0) | (tl.floor(y) == y) | (x == -float("inf"))
        signed = tl.where(real, tl.where((x < 0) & odd, -size, size), float("nan"))
        flat = (y == 0) | (x == 1) | ((x == -1) & (tl.abs(y) == float("inf")))
        return tl.where(flat, 1.0, tl.where(x != x, x, signed)).to(x.dtype)

else:

    @triton.jit
    def device_pow(x, y):
        return libdevice.pow(x, y)
"""

_SOURCES["remainder"] = """@triton.jit
def device_remainder(x, y):
    rest = device_fmod(x, y)
    return tl.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
"""

_SOURCES["floor_div"] = """@triton.jit
def device_floor_div(x, y):
    rest = device_fmod(x, y)
    quotient = (x - rest) / y
    quotient = tl.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1.0, quotient)
    low = tl.floor(quotient)
    low = tl.where(quotient - low > 0.5, low + 1.0, low)
    return tl.where(y == 0, x / y, low)
"""

_SOURCES["int_remainder"] = """@triton.jit
def device_int_remainder(x, y):
    rest = x % y
    return tl.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
"""

_SOURCES["int_floor_div"] = """@triton.jit
def device_int_floor_div(x, y):
    rest = x % y
    quotient = (x - rest) // y
    return tl.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)
"""

# Two instructions each where the accurate ones take ten; relative errors of about 2^-21.
_SOURCES["fast_exp"] = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_fast_exp(x):
        return tl.exp(x)

else:

    @triton.jit
    def device_fast_exp(x):
        return libdevice.fast_expf(x)
"""

_SOURCES["fast_div"] = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_fast_div(x, y):
        return x / y

else:

    @triton.jit
    def device_fast_div(x, y):
        return libdevice.fast_dividef(x, y)
"""

_SOURCES["fast_tanh"] = """@triton.jit
def device_fast_tanh(x):
    # Near zero the second form cancels; x itself is within 2^-15 there.
    return tl.where(tl.abs(x) < 0.01, x, 1.0 - device_fast_div(2.0, 1.0 + device_fast_exp(2.0 * x)))
"""

_SOURCES["max"] = """@triton.jit
def device_max(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
"""

_SOURCES["min"] = """@triton.jit
def device_min(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
"""

_SOURCES["mul"] = """@triton.jit
def device_mul(x, y):
    return x * y
"""

_ARGUMENT = """@triton.jit
def device_arg{name}(x, i, y, j):
    better = (x {sign} y) | ((x != x) & (y == y))
    level = (x == y) | ((x != x) & (y != y))
    first = better | (level & (i < j))
    return tl.where(first, x, y), tl.where(first, i, j)
"""

_SOURCES["argmax"] = _ARGUMENT.format(name="max", sign=">")
_SOURCES["argmin"] = _ARGUMENT.format(name="min", sign="<")

_REDUCE = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_reduce_{name}(x):
        nan = tl.max((x != x).to(tl.int32), axis=1, keep_dims=True)
        return tl.where(nan != 0, float("nan"), tl.{name}(x, axis=1, keep_dims=True)).to(x.dtype)

else:

    @triton.jit
    def device_reduce_{name}(x):
        return tl.reduce(x, 1, device_{name}, keep_dims=True)
"""

_REDUCE_ARGUMENT = """@triton.jit
def device_reduce_arg{name}(x, i, far):
    best = device_reduce_{name}(x)
    hit = (x == best) | ((x != x) & (best != best))
    return best, tl.min(tl.where(hit, i, far), axis=1, keep_dims=True)
"""

for _name in ("max", "min"):
    _SOURCES[f"reduce_{_name}"] = _REDUCE.format(name=_name)
    _SOURCES[f"reduce_arg{_name}"] = _REDUCE_ARGUMENT.format(name=_name)

_NEEDS = {
    "fast_tanh": ("fast_exp", "fast_div"),
    "reduce_max": ("max",),
    "reduce_min": ("min",),
    "reduce_argmax": ("max", "reduce_max"),
    "reduce_argmin": ("min", "reduce_min"),
    "remainder": ("fmod",),
    "floor_div": ("fmod",),
}

LIBDEVICE_IMPORT = "from triton.language.extra import libdevice"


def sources(names: Iterable[str]) -> list[str]:
    """Definitions of the named device functions and what they call, each once, callees first."""
    ordered: dict[str, None] = {}
    for name in names:
        for needed in (*_NEEDS.get(name, ()), name):
            ordered[needed] = None
    return [_SOURCES[name] for name in ordered]


def needs_libdevice(names: Iterable[str]) -> bool:
    """Whether any of the named functions comes from libdevice."""
    return any("libdevice" in source for source in sources(names))
