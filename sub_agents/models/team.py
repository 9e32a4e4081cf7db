"""The models of a run: one for each role, behind one record of answers and one budget."""

from pathlib import Path

from .budget import Ledger
from .endpoint import Endpoint, Surroundings
from .ladder import LadderModel
from .protocol import Answer, Ask, Usage
from .settings import ModelSettings
from .store import AnswerStore, RecordedModel
from .wire import prompt_count

ANSWERS_FILE = "answers.jsonl"


class Team:
    """Routes asks to the model of their role. Roles with the same model share what is known of its endpoint."""

    def __init__(self, settings: ModelSettings, around: Surroundings | None = None) -> None:
        self.settings = settings
        self.ledger = Ledger(settings.token_budget, settings.money_budget)
        around = around or Surroundings()
        names = {settings.model, *settings.models.values()}
        self._models = {name: LadderModel(Endpoint(settings, name, self.ledger, around)) for name in sorted(names)}

    def model(self, name: str) -> LadderModel:
        return self._models[name]

    def ask(self, ask: Ask) -> Answer:
        """As `ChatModel.ask`."""
        return self._models[self.settings.model_for(ask.role)].ask(ask)

    def bound(self, ask: Ask) -> tuple[Usage, str]:
        """What one request for an ask may take at most, and the model that it goes to."""
        endpoint = self._models[self.settings.model_for(ask.role)].endpoint
        prompt = endpoint.estimate.tokens(prompt_count(ask), len(ask.messages))
        cost = endpoint.price.cost(prompt, ask.max_output_tokens) if endpoint.price else None
        most = Usage(prompt_tokens=prompt, completion_tokens=ask.max_output_tokens, cost=cost, estimated=True)
        return most, endpoint.model


def open_models(settings: ModelSettings, run_dir: Path, around: Surroundings | None = None) -> RecordedModel:
    """The models of a run, answering from `answers.jsonl` in its directory what was answered before.

    Raises InvalidInput where a key is needed and missing.
    """
    team = Team(settings, around)
    return RecordedModel(AnswerStore(run_dir / ANSWERS_FILE), team, team.ledger, team.bound)
