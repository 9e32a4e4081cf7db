"""`warpsmith doctor --model`: what an endpoint supports, seen by trying it."""

import pytest
from scripted_server.server import ScriptedServer, call, fail, say

from warpsmith.graph.cli import main
from warpsmith.graph.model_doctor import model_checks
from warpsmith.state.errors import InvalidInput


@pytest.fixture(autouse=True)
def no_endpoint_in_the_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


def everything(body):
    """An endpoint that supports all of it."""
    tools = {tool["function"]["name"] for tool in body.get("tools", [])}
    if "add" in tools:
        return call("add", {"a": 2, "b": 3})
    if tools:
        return call("give_answer", {"answer": 5})
    return say('{"answer": 5}' if "2 + 3" in body["messages"][-1]["content"] else "ready")


def plain(body):
    """One that talks, counts nothing, and knows neither tools, shapes nor temperature."""
    if "temperature" in body:
        return fail(400, "unsupported_value", param="temperature")
    if "tools" in body or "response_format" in body:
        return fail(400)
    return say('It is {"answer": 5}.' if "2 + 3" in body["messages"][-1]["content"] else "ready", usage=None)


def checked(script):
    with ScriptedServer(script) as server:
        return {found.name: found for found in model_checks("scripted", server.url)}, server


def test_an_endpoint_that_supports_everything_has_no_advice():
    found, _ = checked(everything)
    assert [each.name for each in found.values() if not each.fine] == []
    assert "served as scripted-1" in found["model"].found
    assert found["model shaped answers"].found == "asked for by JSON schema"


def test_what_an_endpoint_lacks_is_named_with_its_consequence():
    found, _ = checked(plain)
    lacking = {each.name for each in found.values() if not each.fine}
    assert lacking == {
        "model JSON schema",
        "model answer as a tool call",
        "model JSON mode",
        "model tools",
        "model token counts",
        "model temperature",
    }
    assert all(found[name].advice for name in lacking)
    assert not any(found[name].needed for name in lacking)
    assert found["model shaped answers"].found == "asked for by JSON in plain text"


def test_an_endpoint_that_cannot_be_used_is_one_failure():
    found, server = checked([fail(401, "invalid_api_key")])
    assert list(found) == ["model"]
    assert found["model"].mark == "FAIL"
    assert "status 401" in found["model"].found
    assert len(server.requests) == 1


def test_a_model_that_cannot_write_json_is_not_good_enough_for_plans():
    found, _ = checked([say("Hello! How can I help you today?")])
    assert not found["model shaped answers"].fine
    assert found["model"].fine


def test_settings_that_cannot_be_are_one_line(capsys):
    with pytest.raises(InvalidInput, match="setting base_url: .*http"):
        model_checks("m", "127.0.0.1:80")
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY is not set"):
        model_checks("m", None)
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--base-url", "http://127.0.0.1:1/v1"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("script", "code"), [(everything, 0), ([fail(402)], 1)])
def test_the_command_ends_well_only_with_a_model_that_answers(script, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    # The device has the command to itself in test_doctor: opening a harness takes seconds.
    monkeypatch.setattr("warpsmith.graph.doctor.sheet_checks", lambda settings: [])
    with ScriptedServer(script) as server, pytest.raises(SystemExit) as ended:
        main(["doctor", "--model", "scripted", "--base-url", server.url])
    printed = capsys.readouterr().out
    assert ended.value.code == code, printed
    assert ("no credit left" in printed) is (code == 1)
