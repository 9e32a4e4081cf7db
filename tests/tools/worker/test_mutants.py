"""Problems that cannot tell right from wrong are named as such, with the wrong answer that they accept."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from warpsmith.tools.local import HarnessSettings, LocalHarness

pytestmark = pytest.mark.slow

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHarness]:
    work = tmp_path_factory.mktemp("work")
    with closing(LocalHarness(HarnessSettings(work_dir=work, dry_run=True))) as opened:
        yield opened


def notes_on(harness: LocalHarness, folder: Path, forward: str, inputs: str) -> tuple[str, ...]:
    """Vets a problem with one line of forward."""
    path = folder / "problem.py"
    body = f"class Model(nn.Module):\n    def forward(self, x):\n        {forward}\n\n\n"
    path.write_text(f"{HEAD}\n\n{body}def get_inputs():\n    return [{inputs}]\n")
    return harness.vet(harness.load(path))


def test_a_softmax_refuses_every_mutant(harness: LocalHarness, tmp_path: Path) -> None:
    assert notes_on(harness, tmp_path, "return torch.softmax(x, -1)", "torch.randn(6, 50)") == ()


def test_the_mean_of_a_normalised_tensor_accepts_zeros(harness: LocalHarness, tmp_path: Path) -> None:
    """It is zero but for rounding, so its own error is all that it has."""
    notes = notes_on(harness, tmp_path, "return F.group_norm(x, 2).mean((1, 2))", "torch.randn(3, 4, 64)")
    assert "degenerate: the mutant 'zeros' passes every draw" in notes


def test_an_operand_of_which_half_is_not_used_is_named(harness: LocalHarness, tmp_path: Path) -> None:
    notes = notes_on(harness, tmp_path, "return torch.relu(x[:, :32] * 2)", "torch.randn(5, 64)")
    assert "degenerate: the mutant 'half of input 0' passes every draw" in notes


def test_a_redundant_operator_is_a_note_and_no_degeneracy(harness: LocalHarness, tmp_path: Path) -> None:
    notes = notes_on(harness, tmp_path, "return torch.exp(x).clamp(min=0.0)", "torch.randn(5, 64)")
    assert len(notes) == 1
    assert notes[0].startswith("without clamp")


def test_a_single_number_is_not_its_own_mean_fill(harness: LocalHarness, tmp_path: Path) -> None:
    assert notes_on(harness, tmp_path, "return (x * x).mean()", "torch.randn(5, 64)") == ()


def test_operators_of_which_views_are_taken_are_removed_in_their_layout(harness: LocalHarness, tmp_path: Path) -> None:
    """As in attention: rows of a product that lie transposed are read as rows of heads."""
    forward = "return torch.relu(x.transpose(0, 1)).add(1).transpose(0, 1).view(6, 5, 10)"
    assert notes_on(harness, tmp_path, forward, "torch.randn(6, 50)") == ()


def test_a_reference_that_does_not_run_on_a_mutants_inputs_refuses_it(harness: LocalHarness, tmp_path: Path) -> None:
    forward = "return x / (x if bool((x != 0).all()) else [])[:, :1]"
    assert notes_on(harness, tmp_path, forward, "torch.rand(6, 50) + 1") == ()
