"""What the doctor says about a model and its endpoint."""

from collections.abc import Mapping

from pydantic import ValidationError

from ..state.errors import InvalidInput
from ..sub_agents.models.protocol import Rung
from ..sub_agents.models.settings import KEY_VARIABLE, ModelSettings, need_client
from ..sub_agents.models.trial import Trial, try_models
from .doctor import Finding
from .settings import setting_fault

ANSWER_SECONDS = 120.0
RUNG_NAMES: Mapping[Rung, str] = {
    "json_schema": "JSON schema",
    "tool_call": "answer as a tool call",
    "json_mode": "JSON mode",
    "text": "JSON in plain text",
}


def model_checks(model: str, base_url: str | None) -> list[Finding]:
    """Tries the endpoint with a few short requests and says what it supports."""
    need_client()
    try:
        settings = ModelSettings(model=model, base_url=base_url, attempts=2, answer_seconds=ANSWER_SECONDS)
    except ValidationError as error:
        raise InvalidInput(setting_fault(error)) from error
    return [finding for trial in try_models(settings) for finding in findings(trial)]


def findings(trial: Trial) -> list[Finding]:
    """One line a fact; that there is an answer at all is needed, and that shapes can be asked for in some way."""
    if trial.fault:
        advice = f"check --model, --base-url and {KEY_VARIABLE}; is the server running?"
        return [Finding("model", False, trial.fault, advice, needed=True)]
    served = f" (served as {trial.served_as})" if trial.served_as not in ("", trial.model) else ""
    found = [
        Finding(
            "model",
            True,
            f"{trial.model}{served} at {trial.endpoint} answers in {trial.first_seconds:.2g} s",
            needed=True,
        )
    ]
    for rung, name in RUNG_NAMES.items():
        fault = trial.rungs.get(rung, "not tried")
        found.append(Finding(f"model {name}", not fault, fault or "works", "" if not fault else "not used then"))
    best = trial.best_rung
    found.append(
        Finding(
            "model shaped answers",
            best is not None,
            f"asked for by {RUNG_NAMES[best]}" if best else "none of the four ways works",
            "" if best else "plans will be free text; choose a model that can write JSON",
        )
    )
    advice = "" if not trial.tools else "writers get no tools and hand in at once"
    found.append(Finding("model tools", not trial.tools, trial.tools or "works", advice))
    counted = "" if trial.counts_tokens else "tokens are estimated from above: budgets end earlier"
    found.append(Finding("model token counts", trial.counts_tokens, _yes(trial.counts_tokens), counted))
    warm = "" if trial.takes_temperature else "exploration cannot be widened by temperature"
    found.append(Finding("model temperature", trial.takes_temperature, _yes(trial.takes_temperature), warm))
    found.append(Finding("model output limit", True, f"sent as {trial.limit_parameter}; {trial.tokens} tokens spent"))
    return found


def _yes(works: bool) -> str:
    return "works" if works else "not supported"
