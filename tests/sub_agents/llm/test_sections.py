"""Cutting by rule, fencing, and the notes on what is installed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted.collaborators import GPU

from warpsmith.sub_agents.llm.api_notes import facts, read_docs, triton_functions
from warpsmith.sub_agents.llm.sections import fenced, tokens_of, trimmed

LINES = "\n".join(f"line {number}" for number in range(400))


def test_a_text_within_its_budget_is_left_alone():
    assert trimmed("a\nb", 10) == "a\nb"


def test_a_cut_keeps_the_head_and_says_how_much_is_missing():
    cut = trimmed(LINES, 100)
    assert cut.startswith("line 0\nline 1\n")
    assert cut.endswith("lines left out ...]")
    kept = len(cut.splitlines()) - 1
    assert f"[... {400 - kept} lines left out ...]" in cut


def test_a_cut_that_keeps_both_ends_keeps_the_last_line():
    cut = trimmed(LINES, 100, "ends")
    assert cut.startswith("line 0\n")
    assert cut.endswith("line 399")


@given(st.text(max_size=3000), st.integers(60, 400), st.sampled_from(["head", "ends"]))
def test_no_cut_is_longer_than_its_budget(text, tokens, keep):
    assert tokens_of(trimmed(text, tokens, keep)) <= tokens


@given(st.text(alphabet="`ab\n", max_size=60))
def test_nothing_inside_a_fence_can_end_it(text):
    block = fenced(text, "python").splitlines()
    fence = block[0].removesuffix("python")
    assert block[-1] == fence
    assert not any(line.startswith(fence) for line in block[1:-1])


def test_notes_name_the_versions_installed_and_the_architectures_instructions():
    text = facts("triton", GPU)
    assert "triton 3.6.0" in text
    assert "wgmma" in text


def test_notes_on_triton_are_read_off_the_installed_package_without_importing_it():
    import importlib.util
    import subprocess
    import sys

    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    assert {"load", "store", "dot", "sum", "associative_scan"} <= set(triton_functions())
    code = (
        "import sys; from warpsmith.sub_agents.llm.api_notes import triton_functions as f; "
        "assert 'input_precision' in f()['dot']; assert 'triton' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("topic", ["tl.load", "triton.language.load", "load"])
def test_a_function_is_found_by_any_of_its_names(topic):
    assert read_docs(topic, GPU).startswith("tl.load(")


def test_an_unknown_topic_is_answered_with_what_is_near():
    assert "atomic_add" in read_docs("atomic", GPU)
    assert "no notes on 'frobnicate'" in read_docs("frobnicate", GPU)


def test_notes_on_cuda_say_how_kernels_are_launched():
    assert "ExternalStream" in read_docs("cuda", GPU)
