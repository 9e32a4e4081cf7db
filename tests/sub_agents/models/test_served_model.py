"""A small real language model behind the same endpoint setting: whatever it says is read, or answered with a fault."""

from pathlib import Path

import pytest
from pydantic import BaseModel
from served_model.serving import HOW, served_model, weights

from warpsmith.sub_agents.answers import Wanted, read_kernel
from warpsmith.sub_agents.models.protocol import Ask, Message
from warpsmith.sub_agents.models.settings import ModelSettings
from warpsmith.sub_agents.models.team import open_models
from warpsmith.sub_agents.models.trial import try_models

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1200)]

REFERENCE = "class Model:\n    def __init__(self):\n        ...\n    def forward(self, x):\n        return x + 1\n"


class Idea(BaseModel):
    name: str
    gain: float


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    file = weights()
    if file is None:
        pytest.skip(f"no model to serve: {HOW}")
    with served_model(file, tmp_path_factory.mktemp("served") / "log") as url:
        yield url


def test_a_real_model_can_be_tried(address):
    (trial,) = try_models(ModelSettings(model="small", base_url=address, attempts=1))
    assert trial.fault in ("", "the answer was cut after 300 tokens")
    assert trial.served_as.startswith("SmolLM2")


def test_whatever_a_real_model_writes_is_read_or_has_a_fault(address, tmp_path: Path):
    model = open_models(ModelSettings(model="small", base_url=address, token_budget=6000), tmp_path)
    for number, temperature in enumerate((0.0, 0.7, 1.5)):
        text = "Write a Python class ModelNew with a method forward(self, x) that returns x + 1. Answer with code only."
        message = Message(author="user", text=text)
        shape = Idea if number == 2 else None
        ask = Ask(
            role="triton_writer",
            phase="explore",
            messages=(message,),
            max_output_tokens=120,
            temperature=temperature,
            answer_schema=shape,
        )
        answer = model.ask(ask)
        reading = read_kernel(answer, Wanted(reference=REFERENCE))
        assert bool(reading.source) != bool(reading.fault)
        assert answer.usage.prompt_tokens > 10
        assert not answer.usage.estimated
        if shape is not None:
            assert answer.parsed is None or set(answer.parsed) == {"name", "gain"}
            assert answer.parsed is not None or answer.fault
    assert model.ledger.spent_tokens <= 6000
