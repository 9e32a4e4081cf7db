"""Options about models become settings, or one line that says what is wrong."""

import sys

import pytest

from warpsmith.graph import optimize
from warpsmith.graph.commands import options
from warpsmith.graph.model_doctor import model_checks
from warpsmith.graph.models import check_models, model_settings
from warpsmith.graph.settings import make_context
from warpsmith.state.errors import InvalidInput


def test_roles_and_prices_are_read_from_their_options():
    assert options.models_of(["planner=small", "cuda_writer=big"]) == {"planner": "small", "cuda_writer": "big"}
    assert options.prices_of(["a/b=1.5,6"]) == {"a/b": {"prompt": 1.5, "completion": 6.0}}
    assert options.models_of(None) is None
    assert options.prices_of([]) is None


@pytest.mark.parametrize("given", ["planner", "=x", "planner="])
def test_a_role_option_of_another_form_is_refused(given):
    with pytest.raises(InvalidInput, match="give ROLE=MODEL"):
        options.models_of([given])


@pytest.mark.parametrize("given", ["m", "m=1", "m=1,2,3", "m=a,b"])
def test_a_price_option_of_another_form_is_refused(given):
    with pytest.raises(InvalidInput, match="give MODEL=IN,OUT"):
        options.prices_of([given])


def test_settings_reach_the_endpoint():
    context = make_context(
        {
            "model": "big",
            "models": {"planner": "small"},
            "base_url": "http://127.0.0.1:1/v1",
            "tokens": 1000,
            "prices": {"big": {"prompt": 1, "completion": 2}},
        }
    )
    settings = model_settings(context)
    assert settings.model_for("planner") == "small"
    assert settings.model_for("repairer") == "big"
    assert settings.token_budget == 1000
    assert settings.prices["big"].completion == 2


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"model": "big", "models": {"chef": "x"}}, "chef"),
        ({"model": "big", "money": 1.0}, "needs the price of big"),
        ({"model": "big", "prices": {"big": {"prompt": -1, "completion": 0}}}, "prices.big.prompt"),
        ({"writer": "hybrid"}, "--writer hybrid needs a model"),
    ],
)
def test_wrong_settings_are_named_before_anything_starts(settings, fault):
    with pytest.raises(InvalidInput, match=fault):
        check_models(make_context(settings), None)


def test_a_missing_key_leaves_no_run_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    problem = tmp_path / "p.py"
    problem.write_text("class Model: ...\n")
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY is not set"):
        optimize(problem, model="big", out=str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_a_missing_client_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setitem(sys.modules, "langchain_openai", None)
    with pytest.raises(InvalidInput, match="install Warpsmith's extra llm"):
        check_models(make_context({"model": "big"}), None)
    with pytest.raises(InvalidInput, match="install Warpsmith's extra llm"):
        model_checks("big", None)
