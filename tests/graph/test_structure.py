"""Kinds of kernels, told apart without their sizes."""

from warpsmith.graph.structure import structure_of
from warpsmith.state.candidate import make_candidate


def templated(**slots):
    return make_candidate(
        "x = 1", "triton", template="row", slots={f"step.{name}": each for name, each in slots.items()}
    )


def test_sizes_and_switches_do_not_make_another_structure():
    assert structure_of(templated(tile=64, mask=True)) == structure_of(templated(tile=128, mask=False))


def test_words_among_the_slots_do():
    assert structure_of(templated(passes="one", tile=64)) != structure_of(templated(passes="two", tile=64))
    assert structure_of(templated(template="row", tile=64)) == structure_of(templated(tile=64))


def test_free_sources_are_told_apart_by_kernels_and_marks():
    dot = "@triton.jit\ndef k(a):\n    return tl.dot(a, a)\n"
    plain = "@triton.jit\ndef k(a):\n    return a + 1\n"
    two = f"{plain}@triton.jit\ndef j(a):\n    tl.atomic_add(a, 1)\n"
    found = [structure_of(make_candidate(source, "triton")) for source in (dot, plain, two)]
    assert found == ["triton kernels=1 dot", "triton kernels=1", "triton kernels=2 atomic"]
