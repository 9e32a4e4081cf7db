"""Every way in which an answer can hide its kernel file, and every way in which it can hold none."""

import ast
import json
import random

import pytest

from warpsmith.state.candidate import normalised_hash
from warpsmith.sub_agents.answers import Wanted, read_code, read_kernel
from warpsmith.sub_agents.models.protocol import Answer, Usage

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x, residual):
        return x * self.weight + residual
"""
WANTED = Wanted(reference=REFERENCE)


def kernel(mark: str = "mark = 1", init: str = "self, features, eps=1e-5", forward: str = "self, x, residual") -> str:
    return f"""import torch
import triton
import triton.language as tl

{mark}


@triton.jit
def scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets))


class ModelNew(torch.nn.Module):
    def __init__({init}):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward({forward}):
        out = torch.empty_like(x)
        scale_kernel[(1,)](out, 4, BLOCK=4)
        return out
"""


def fenced(code: str, info: str = "python", fence: str = "```") -> str:
    return f"{fence}{info}\n{code}{fence}\n"


def source_of(text: str, wanted: Wanted = WANTED) -> str:
    reading = read_code(text, wanted)
    assert reading.source is not None, reading.fault
    assert reading.fault == ""
    return reading.source


def fault_of(text: str, wanted: Wanted = WANTED) -> str:
    reading = read_code(text, wanted)
    assert reading.source is None
    assert reading.fault
    assert "\n" not in reading.fault
    return reading.fault


def answer(text: str, finish: str = "stop", fault: str = "") -> Answer:
    return Answer(text=text, finish=finish, fault=fault, usage=Usage(completion_tokens=900))


# Which of several blocks


def test_a_single_block_is_taken_as_it_stands():
    assert source_of(f"Here it is.\n\n{fenced(kernel())}\nIt is fast.") == kernel()


def test_the_file_that_defines_the_model_is_taken_although_others_come_first_and_last():
    text = fenced("print('a note')\n") + fenced(kernel()) + fenced("model = ModelNew(8).cuda()\nmodel(x, y)\n")
    assert source_of(text) == kernel()


def test_a_superseded_draft_is_passed_over():
    draft, final = kernel("mark = 'draft'"), kernel("mark = 'final'")
    text = f"A first draft:\n{fenced(draft)}\nThat reads out of bounds. Here is the corrected file:\n{fenced(final)}"
    assert source_of(text) == final


def test_an_old_version_shown_after_the_answer_is_passed_over():
    text = (
        f"The new kernel:\n{fenced(kernel())}\nFor comparison, the previous version was:\n{fenced(kernel('mark = 0'))}"
    )
    assert source_of(text) == kernel()


def test_of_two_files_that_nothing_tells_apart_the_last_is_taken():
    assert source_of(fenced(kernel("mark = 1")) + fenced(kernel("mark = 2"))) == kernel("mark = 2")


def test_the_kernel_that_was_tried_before_is_passed_over_for_a_new_one():
    old = kernel("mark = 0")
    wanted = Wanted(reference=REFERENCE, known=frozenset({normalised_hash(old)}))
    assert source_of(fenced(kernel()) + fenced(old), wanted) == kernel()
    assert "tried before" in fault_of(fenced(old), wanted)


def test_a_file_with_gaps_yields_to_a_whole_one():
    sketch = kernel("# ... rest of the kernels as before\nmark = 3")
    assert source_of(fenced(kernel()) + fenced(sketch)) == kernel()


def test_a_usage_example_that_repeats_the_class_name_is_not_the_kernel():
    example = "from kernel import ModelNew\n\nprint(ModelNew(8)(x, y))\n"
    assert source_of(f"{fenced(kernel())}\nUsage:\n{fenced(example)}") == kernel()


def test_the_reference_quoted_back_is_not_the_kernel():
    assert source_of(f"The reference is\n{fenced(REFERENCE)}\nand the kernel\n{fenced(kernel())}") == kernel()
    assert "name the class ModelNew" in fault_of(fenced(REFERENCE))


# How a block is written


def test_shell_lines_in_the_block_are_left_out():
    text = fenced(f"$ pip install triton\n!nvidia-smi\n{kernel()}") + fenced("pip install triton\n", "bash")
    assert source_of(text) == kernel()


def test_a_docstring_with_a_fence_in_it_does_not_end_the_block():
    code = kernel('"""Use it as\n\n```python\nModelNew(8)\n```\n"""')
    assert source_of(f"{fenced(code)}\nDone.") == code


def test_a_block_inside_a_longer_fence_is_found():
    assert source_of(fenced(f"# Solution\n\n{fenced(kernel())}", "markdown", "````")) == kernel()


def test_a_block_inside_a_fence_of_the_same_length_is_found():
    assert source_of(fenced(f"The file:\n\n{fenced(kernel())}", "markdown")) == kernel()


def test_tildes_and_indented_fences_in_a_list_are_fences_too():
    indented = "".join(f"   {line}" if line.strip() else line for line in fenced(kernel()).splitlines(keepends=True))
    assert source_of(fenced(kernel(), "py", "~~~")) == kernel()
    assert source_of(f"1. Write it:\n\n{indented}\n2. Run it.") == kernel()


def test_a_block_that_is_never_closed_is_taken_when_it_is_whole():
    assert source_of(f"Here:\n```python\n{kernel()}") == kernel()


def test_code_without_any_fence_is_found_between_prose():
    assert source_of(f"Sure! This is the kernel you asked for:\n\n{kernel()}\nIt fuses both operations.") == kernel()
    assert source_of(kernel()) == kernel()


def test_code_with_a_closing_fence_only_is_found():
    assert source_of(f"{kernel()}```\n") == kernel()


def test_a_syntax_error_is_not_cut_away_with_what_follows_it():
    broken = kernel().replace("        return out\n", "        return out out\n")
    assert "does not parse: line" in fault_of(broken)
    assert "does not parse: line" in fault_of(fenced(broken))


def test_source_in_a_json_answer_is_found():
    assert source_of(json.dumps({"why": "fused", "source": kernel()})) == kernel()
    assert source_of(json.dumps({"source": fenced(kernel())})) == kernel()
    assert source_of(fenced(json.dumps({"files": [{"code": kernel()}]}), "json")) == kernel()


def test_windows_line_ends_are_line_ends():
    assert source_of(fenced(kernel()).replace("\n", "\r\n")) == kernel()


# Several files


def test_kernels_in_one_block_and_the_model_in_another_are_one_file():
    kernels, _, model = kernel().partition("class ModelNew")
    source = source_of(f"First the kernel:\n{fenced(kernels)}\nThen the model:\n{fenced('class ModelNew' + model)}")
    assert source.index("def scale_kernel") < source.index("class ModelNew")
    assert read_code(fenced(source), WANTED).source == source


def test_a_file_that_imports_another_file_of_the_answer_is_sent_back():
    kernels, _, model = kernel().partition("class ModelNew")
    main = f"import torch\nfrom kernels import scale_kernel\n\nclass ModelNew{model}"
    fault = fault_of(f"kernels.py:\n{fenced(kernels)}\nmodel.py:\n{fenced(main)}")
    assert "several files (kernels)" in fault


def test_names_that_nothing_defines_are_named():
    _, _, model = kernel().partition("class ModelNew")
    assert "scale_kernel" in fault_of(fenced(f"import torch\n\nclass ModelNew{model}"))


def test_a_patch_is_sent_back():
    assert "patch" in fault_of(fenced("@@ -1,2 +1,2 @@\n-class ModelNew:\n+class ModelNew(nn.Module):\n", "diff"))


# What the file defines


@pytest.mark.parametrize(
    ("parts", "method"),
    [
        ({"init": "self"}, "__init__"),
        ({"init": "self, features, eps"}, "__init__"),
        ({"init": "self, features, eps=1e-5, *, device"}, "__init__"),
        ({"forward": "self, x"}, "forward"),
        ({"forward": "self, x, residual, weight"}, "forward"),
    ],
)
def test_a_model_that_cannot_stand_in_for_the_reference_is_sent_back(parts, method):
    assert f"ModelNew.{method} does not take" in fault_of(fenced(kernel(**parts)))


@pytest.mark.parametrize(
    "parts",
    [
        {"init": "self, *arguments"},
        {"init": "self, features, eps=1e-5, tile=128"},
        {"forward": "self, x, residual, scale=None"},
        {"forward": "self, *tensors", "mark": "x = None"},
    ],
)
def test_a_model_that_takes_more_than_the_reference_is_fine(parts):
    assert source_of(fenced(kernel(**parts))) == kernel(**parts)


def test_a_constructor_inherited_from_another_class_of_the_file_counts():
    base = kernel().replace("class ModelNew(torch.nn.Module)", "class Base(torch.nn.Module)")
    assert source_of(fenced(base + "\n\nclass ModelNew(Base):\n    pass\n"))
    assert source_of(fenced(base + "\n\nModelNew = Base\n"))
    lacking = (
        "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, residual):\n        return x\n"
    )
    assert "ModelNew.__init__ does not take" in fault_of(fenced(lacking))


def test_the_right_model_is_preferred_to_one_with_another_signature():
    assert source_of(fenced(kernel()) + fenced(kernel("mark = 2", forward="self, x"))) == kernel()


def test_a_placeholder_is_no_forward():
    text = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, residual):\n        ...\n"
    assert "placeholder" in fault_of(fenced(text))
    assert "no forward" in fault_of(fenced("import torch\n\nclass ModelNew(torch.nn.Module):\n    pass\n"))


# Thinking


DRAFT = fenced(kernel("mark = 'thought'"))


@pytest.mark.parametrize("name", ["think", "thinking", "reasoning", "Think"])
def test_closed_thinking_is_left_out(name):
    assert source_of(f"<{name}>\nMaybe\n{DRAFT}</{name}>\n\n{fenced(kernel())}") == kernel()
    assert "empty" in fault_of(f"<{name}>\nMaybe\n{DRAFT}</{name}>")


def test_thinking_whose_opening_tag_the_server_kept_is_left_out():
    assert source_of(f"Maybe\n{DRAFT}\nNo, wait.\n</think>\n\n{fenced(kernel())}") == kernel()


def test_thinking_that_never_ends_hands_nothing_in():
    assert "empty" in fault_of(f"<think>\nMaybe\n{DRAFT}")
    assert source_of(f"{fenced(kernel())}\n<think>\nOr\n{DRAFT}") == kernel()


def test_an_answer_whose_thinking_was_split_off_by_the_server_is_only_the_answer():
    assert source_of(fenced(kernel())) == kernel()


# Characters


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("byte order mark", lambda text: "\ufeff" + text),
        ("byte order mark in the block", lambda text: text.replace("import torch", "\ufeffimport torch", 1)),
        ("no-break spaces", lambda text: text.replace("    ", "\u00a0\u00a0\u00a0\u00a0")),
        ("zero-width spaces", lambda text: text.replace("def ", "def \u200b")),
        ("zero-width joiners", lambda text: text.replace("torch", "to\u200drch")),
        ("lone surrogates", lambda text: text + "\ud83d"),
        ("null characters", lambda text: text.replace("mark", "ma\x00rk", 1)),
        ("line separators", lambda text: text.replace("\n\n", "\n\u2028")),
        ("direction marks", lambda text: text.replace("return", "\u202ereturn\u202c")),
    ],
)
def test_characters_that_no_source_may_hold_are_taken_out(name, spoil):
    source = source_of(spoil(fenced(kernel())))
    assert source == kernel()
    source.encode()


# Nothing to read


@pytest.mark.parametrize("text", ["", "   \n", "\u200b", "<think></think>"])
def test_an_empty_answer_says_so(text):
    assert "empty" in fault_of(text)


def test_prose_without_code_says_so():
    assert "no code in the answer" in fault_of("I would fuse both operations and use 128 threads.")
    assert "defines ModelNew" in fault_of(fenced("def kernel(x):\n    return x\n"))


def test_a_cut_answer_is_never_read_even_if_it_would_import():
    reading = read_kernel(answer(fenced(kernel()), "truncated"), WANTED)
    assert reading.source is None
    assert "cut after 900 tokens" in reading.fault


def test_a_refusal_is_told_as_one():
    reading = read_kernel(answer(fenced(kernel()), "refused", "the model refused: no GPU code"), WANTED)
    assert (reading.source, reading.fault) == (None, "the model refused: no GPU code")


def test_an_answer_that_ended_by_itself_is_read():
    assert read_kernel(answer(fenced(kernel())), WANTED).source == kernel()


def test_a_hostile_answer_takes_no_time_worth_mentioning():
    text = ("```python\nclass ModelNew:\n" * 300) + "{" * 3000 + "<think>" * 1000 + "(" * 5000
    assert fault_of(text)


def test_an_error_that_shows_only_when_names_are_resolved_is_a_syntax_error_too():
    assert "does not parse" in fault_of(fenced(kernel("def f(x, x):\n    return x")))


FRAGMENTS = [
    "```python\n", "```\n", "````\n", "~~~\n", "- ```py\n", "> ```\n", "<think>\n", "</think>\n", '"""\n', "{", "}",
    "(((", "class ModelNew:\n", "ModelNew = 3\n", "ModelNew = ModelNew\n",
    "class A(B): pass\nclass B(A): pass\nModelNew = A\n",
    "class ModelNew:\n    def __init__(): pass\n    def forward(): pass\n", "from __future__ import nothing\n",
    '{"source": "class ModelNew: pass"}', "\x00", "\ufeff", "\ud800", "\u00a0", "$ pip install\n", "@@ -1 +1 @@\n",
    "    indented\n", "return 1\n", "nonlocal x\n", "from . import x\n", "final answer:\n", "old version:\n", "\x0c",
    kernel(), kernel("mark = 2"), REFERENCE, fenced(kernel()),
]  # fmt: skip


def test_any_mixture_is_read_or_has_one_fault_in_one_line():
    rng = random.Random(1)
    read = 0
    for _ in range(1500):
        text = "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 9)))
        cut = rng.randrange(len(text))
        text = text if rng.random() < 0.7 else text[:cut] + text[cut + rng.randint(1, 30) :]
        reading = read_code(text, WANTED)
        assert (reading.source is None) == bool(reading.fault), text
        assert "\n" not in reading.fault
        if reading.source is not None:
            read += 1
            ast.parse(reading.source)
            reading.source.encode()
    assert read > 100
