"""Problems of every kind: inputs and outputs, changes in place, modes and weights."""

from collections.abc import Callable

from candidates.softmax import verdict

from warpsmith.state.evaluation import Status
from warpsmith.state.problem import Problem
from warpsmith.tools.local import LocalHarness

MIXED = """
class Model(nn.Module):
    def forward(self, logits, target, mask, flag, shift, nothing):
        loss = nn.functional.cross_entropy(logits.float(), target)
        kept = (logits.t() * mask[:, None] + shift) if flag else logits
        return {"loss": loss, "aux": (kept, None, 3), "best": [logits.float().argmax(0), mask.sum()]}
def get_inputs():
    return [torch.randn(10, 24).t().bfloat16().contiguous().t().t(), torch.randint(0, 10, (24,)), torch.rand(10) > 0.5,
            True, 0.25, None]
"""
MIXED_RIGHT = MIXED.split("def get_inputs")[0].replace("class Model", "class ModelNew")


def test_outputs_and_inputs_of_every_kind(harness: LocalHarness, opened: Callable[[str], Problem]) -> None:
    problem = opened(MIXED)
    assert harness.vet(problem) == ()
    assert verdict(harness, problem, MIXED_RIGHT).correct

    def status(old: str, new: str) -> Status:
        assert old in MIXED_RIGHT
        return verdict(harness, problem, MIXED_RIGHT.replace(old, new)).status

    assert status("None, 3)", "None, 3.0)") is Status.INCORRECT_STRUCTURE
    assert status("None, 3)", "None, 4)") is Status.INCORRECT_STRUCTURE
    assert status("None, 3)", "3)") is Status.INCORRECT_STRUCTURE
    assert status('"loss": loss', '"loss": loss.item()') is Status.INCORRECT_STRUCTURE
    assert status("cross_entropy(logits.float()", "cross_entropy(logits") is Status.INCORRECT_DTYPE
    assert status("argmax(0)", "argmax(0).int()") is Status.INCORRECT_DTYPE
    assert status("argmax(0)", "argmin(0)") is Status.INCORRECT_NUMERICAL
    assert status("mask.sum()", "mask.sum() + 1") is Status.INCORRECT_NUMERICAL
    assert status("+ shift", "- shift") is Status.INCORRECT_NUMERICAL


IN_PLACE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.1))
    def forward(self, state, gradient):
        state.mul_(1 - self.rate).add_(gradient * self.rate)
        return state + gradient
def get_inputs():
    return [torch.randn(33, 7), torch.randn(33, 7)]
"""


def test_a_reference_that_changes_an_input_expects_the_same_change(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened(IN_PLACE)
    harness.vet(problem)
    honest = IN_PLACE.split("def get_inputs")[0].replace("class Model", "class ModelNew")
    assert verdict(harness, problem, honest).correct
    apart = honest.replace("state.mul_(1 - self.rate).add_(", "state = (state * (1 - self.rate)).add_(")
    assert verdict(harness, problem, apart).status is Status.INCORRECT_NUMERICAL
    too_much = honest.replace("return state + gradient", "gradient.zero_(); return state + gradient")
    assert verdict(harness, problem, too_much).status is not Status.UNVERIFIED


BATCH_NORM = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
    def forward(self, x):
        return torch.relu(self.norm(x))
def get_inputs():
    return [torch.randn(32, 6)]
"""


def test_batch_norm_in_training_mode_is_judged_in_that_mode(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened(BATCH_NORM)
    harness.vet(problem)
    honest = BATCH_NORM.split("def get_inputs")[0].replace("class Model", "class ModelNew")
    assert verdict(harness, problem, honest).correct
    frozen = honest + "\n    def train(self, mode=True): return super().train(False)\n"
    assert verdict(harness, problem, frozen).status is Status.INCORRECT_NUMERICAL


LAYERS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(12, 16), nn.LayerNorm(16), nn.Linear(16, 5)
    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))
def get_inputs(rows=8):
    return [torch.randn(2 * rows, 24)[::2, ::2]]
"""


def test_weights_cross_by_name_or_by_value_or_not_at_all(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened(LAYERS)
    honest = LAYERS.split("def get_inputs")[0].replace("class Model", "class ModelNew")
    order = "nn.Linear(12, 16), nn.LayerNorm(16), nn.Linear(16, 5)"
    assert verdict(harness, problem, honest).correct
    renamed = honest.replace("self.first", "self.w0").replace("self.norm", "self.w1").replace("self.last", "self.w2")
    assert verdict(harness, problem, renamed).correct
    backwards = "self.last = nn.Linear(16, 5); self.norm = nn.LayerNorm(16); self.first = nn.Linear(12, 16)"
    reversed_names = honest.replace("self.first, self.norm, self.last = " + order, backwards)
    assert verdict(harness, problem, reversed_names).correct
    both = reversed_names.replace("self.first", "self.w0").replace("self.last", "self.w2")
    found = verdict(harness, problem, both)
    assert found.status is Status.CONTRACT_ERROR
    assert found.message.startswith("cannot map weights: w2.weight")
    extra = honest.replace("super().__init__()", "super().__init__(); self.register_buffer('space', torch.zeros(3))")
    assert verdict(harness, problem, extra).status is Status.CONTRACT_ERROR
    private = extra.replace("torch.zeros(3))", "torch.zeros(3), persistent=False)")
    assert verdict(harness, problem, private).correct
    flat = honest.replace("self.first(x)", "self.first(torch.as_strided(x, x.shape, (12, 1)))")
    assert verdict(harness, problem, flat).status is Status.INCORRECT_NUMERICAL


def test_a_file_whose_get_inputs_is_a_generator_is_judged(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened("""
        class Model(nn.Module):
            def forward(self, x, y): return x + y
        def get_inputs():
            for _ in range(2):
                yield torch.randn(5)
    """)
    harness.vet(problem)
    body = "class ModelNew(nn.Module):\n    def forward(self, x, y): return {}"
    assert verdict(harness, problem, body.format("y + x")).correct
    assert verdict(harness, problem, body.format("x + x")).status is Status.INCORRECT_NUMERICAL
