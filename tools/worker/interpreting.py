"""Triton's interpreter rounded as hardware rounds: its casts from float32 to bfloat16 cut off what does not fit.

A kernel that adds next to nothing to a bfloat16 value came out a whole unit lower wherever that was negative, and was
refused in dry runs for it.
"""

from typing import Any

_CUT_OFF_BITS = 16
_HALF = 0x7FFF


def round_to_nearest() -> None:
    """From here on such casts round to the nearest value, ties to even. Nothing where the interpreter is another."""
    from triton import language as tl
    from triton.runtime import interpreter

    builder: Any = getattr(interpreter, "InterpreterBuilder", None)
    if not hasattr(builder, "cast_impl"):
        return
    cast = builder.cast_impl

    def rounding(self: Any, source: Any, target: Any) -> Any:
        if (source.dtype.scalar, target.scalar) == (tl.float32, tl.bfloat16):
            source = interpreter.TensorHandle(rounded(source.data), source.dtype)
        return cast(self, source, target)

    builder.cast_impl = rounding


def rounded(values: Any) -> Any:
    """A float32 array with every value replaced by the nearest bfloat16, as float32."""
    import numpy

    bits = numpy.ascontiguousarray(values).view(numpy.uint32)
    last = (bits >> _CUT_OFF_BITS) & 1
    near = ((bits + (_HALF + last)) >> _CUT_OFF_BITS) << _CUT_OFF_BITS
    return numpy.where(numpy.isfinite(values), near.astype(numpy.uint32).view(numpy.float32), values)
