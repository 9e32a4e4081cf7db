"""Compilers' own output, as they wrote it, and what is kept of it."""

import pytest

from warpsmith.tools.compiler_output import decisive_line, first_error, trimmed

NVRTC = """/tmp/tmpab12/9f.cubin.cu(7): warning #177-D: variable "unused" was declared but never referenced
      float unused;
            ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

/tmp/tmpab12/9f.cubin.cu(12): error: identifier "wrap" is undefined
      y[i] = wrap(x[i]);
             ^

/tmp/tmpab12/9f.cubin.cu(13): error: expected a ";"
  }
  ^

2 errors detected in the compilation of "/tmp/tmpab12/9f.cubin.cu".
"""
PTXAS = """ptxas info    : 0 bytes gmem
ptxas error   : Entry function 'row' uses too much shared data (0x3a000 bytes, 0x38c00 max)
"""
FATAL = "ptxas fatal   : Unresolved extern function '_Z4wrapf'\n"
TRITON = """CompilationError: at 4:11:
def add(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    out2 = tl.frobnicate(value)
           ^
AttributeError("module 'triton.language' has no attribute 'frobnicate'")
  line 14: add[(1,)](x, out, 100, BLOCK=64)
RuntimeError: the same again, told by the caller
"""
ASSERTED = "CompileTimeAssertionFailure: at 2:4:\ndef k(N: tl.constexpr):\n    tl.static_assert(N > 4)\n    ^\nN > 4\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NVRTC, 'line 12: error: identifier "wrap" is undefined'),
        (PTXAS, "ptxas error   : Entry function 'row' uses too much shared data (0x3a000 bytes, 0x38c00 max)"),
        (FATAL, "ptxas fatal   : Unresolved extern function '_Z4wrapf'"),
        (TRITON, "at 4:11: AttributeError(\"module 'triton.language' has no attribute 'frobnicate'\")"),
        (ASSERTED, "at 2:4: N > 4"),
        ("ValueError: first\nsecond", "ValueError: first"),
        ("", "the compiler gave no reason"),
        ("x" * 900, "x" * 500),
    ],
)
def test_the_decisive_line_of_every_compiler(text: str, line: str) -> None:
    assert decisive_line(text) == line


def test_the_first_error_of_nvrtc_has_its_source_and_caret_and_nothing_of_the_second() -> None:
    found = first_error(NVRTC)
    assert found.splitlines()[0].endswith('error: identifier "wrap" is undefined')
    assert "y[i] = wrap(x[i]);" in found
    assert "expected" not in found
    assert "warning" not in found


def test_the_first_error_of_triton_has_its_reason_and_not_the_exception_around_it() -> None:
    assert "has no attribute 'frobnicate'" in first_error(TRITON)
    assert "told by the caller" not in first_error(TRITON)


@pytest.mark.parametrize("text", [NVRTC, PTXAS, TRITON, ASSERTED])
def test_the_first_error_survives_whole_wherever_it_stands(text: str) -> None:
    error = first_error(text).strip("\n")
    shown = trimmed("before\n" * 3000 + text + "after\n" * 3000)
    assert error in shown
    assert len(shown) < 4300
    assert shown.startswith("before")
    assert shown.endswith("after")


def test_an_error_longer_than_what_is_shown_keeps_its_place_and_its_reason() -> None:
    source = "".join(f"    value_{number} = {number}\n" for number in range(2000))
    shown = trimmed(f"CompilationError: at 2001:4:\n{source}           ^\nNameError('value_x is not defined')\n")
    assert shown.startswith("CompilationError: at 2001:4:")
    assert shown.endswith("NameError('value_x is not defined')")
    assert len(shown) < 4300


def test_output_without_an_error_keeps_both_ends() -> None:
    shown = trimmed("first\n" + "x" * 100_000 + "\nlast")
    assert shown.startswith("first")
    assert shown.endswith("last")
    assert "characters left out" in shown
    assert trimmed("short") == "short"
