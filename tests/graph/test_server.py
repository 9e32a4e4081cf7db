"""The LangGraph server loads the controller, shows its nodes and schemas, and runs it. Needs the extra `studio`."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted.collaborators import kernel
from scripted.recordings import record_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ROOT = Path(__file__).resolve().parents[2]
CLI = shutil.which("langgraph", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
if CLI is None:
    pytest.skip("langgraph-cli is not installed (extra studio)", allow_module_level=True)
sdk = pytest.importorskip("langgraph_sdk")
QUIET = {
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGGRAPH_STRICT_MSGPACK": "true",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, log = free_port(), tmp_path_factory.mktemp("server") / "log.txt"
    # Run elsewhere than in the checkout: the server keeps its threads in the folder that it is started in.
    home = log.parent / "home"
    home.mkdir()
    shutil.copy(ROOT / "langgraph.json", home / "langgraph.json")
    command = [CLI, "dev", "--host", "127.0.0.1", "--port", str(port), "--no-browser", "--no-reload"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=home,
            env={**os.environ, **QUIET},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(port, process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()[-3000:]}")


def test_the_server_shows_named_nodes_and_documented_schemas(server):
    client = sdk.get_sync_client(url=server)
    (assistant,) = client.assistants.search(graph_id="warpsmith")
    drawn = client.assistants.get_graph(assistant["assistant_id"])
    names = {node["id"] for node in drawn["nodes"]}
    assert {"explore", "rewrite", "tune", "propose", "evaluate", "profile", "diagnose", "feedback", "record"} <= names
    schemas = client.assistants.get_schemas(assistant["assistant_id"])
    context = schemas["context_schema"]["properties"]
    assert context["budget"]["default"] == 18
    assert all(field.get("description") and field.get("title") and "default" in field for field in context.values())
    assert schemas["input_schema"]["properties"]["problem"]["description"]
    assert {"phase", "tried", "best", "best_rank", "stop_reason"} <= set(schemas["state_schema"]["properties"])


def test_the_sub_agents_can_be_looked_into(server):
    client = sdk.get_sync_client(url=server)
    inside = {
        "planner": {"ask_planner", "read_plan"},
        "triton_writer": {"write:ask_writer", "write:use_tools", "write:compile_draft", "write:hand_in", "repair"},
        "cuda_writer": {"write:ask_writer", "write:use_tools", "write:compile_draft", "write:hand_in", "repair"},
        "repairer": {"ask_repairer", "read_repair"},
    }
    for name, nodes in inside.items():
        (assistant,) = client.assistants.search(graph_id=name)
        drawn = client.assistants.get_graph(assistant["assistant_id"], xray=True)
        assert nodes <= {node["id"] for node in drawn["nodes"]}, name
        assert client.assistants.get_schemas(assistant["assistant_id"])["state_schema"]["properties"]


def test_a_run_through_the_sdk_passes_the_nodes_and_leaves_a_readable_state(server, tmp_path):
    problem, recording = record_run(tmp_path)
    client = sdk.get_sync_client(url=server)
    thread = client.threads.create()
    context = {"replay": str(recording), "out": str(tmp_path / "runs")}
    seen, events, errors = [], [], []
    stream = client.runs.stream(
        thread["thread_id"],
        "warpsmith",
        input={"problem": str(problem)},
        context=context,
        stream_mode=["updates", "custom"],
    )
    for part in stream:
        if part.event == "updates":
            seen += list(part.data)
        elif part.event == "custom":
            events.append(part.data["event"])
        elif part.event == "error":
            errors.append(part.data)
    assert errors == []
    assert seen[:5] == ["load_problem", "vet_problem", "measure_baseline", "plan", "explore"]
    assert seen[-3:] == ["cross_validate", "final_check", "report"]
    assert {"profile", "diagnose", "feedback", "record", "rewrite", "tune"} <= set(seen)
    assert events.count("evaluated") > 10
    state = client.threads.get_state(thread["thread_id"])["values"]
    assert state["winner"] == kernel("cuda", 64, stages=4).id
    assert state["outcome"] == "verified"
    assert state["pool"][0]["language"] == "cuda"
    assert (Path(state["run_dir"]) / "report.html").is_file()


def test_a_wrong_setting_is_refused_by_name(server, tmp_path):
    client = sdk.get_sync_client(url=server)
    thread = client.threads.create()
    parts = client.runs.stream(thread["thread_id"], "warpsmith", input={"problem": "x.py"}, context={"budget": 0})
    assert any("budget" in str(part.data) for part in parts if part.event == "error")
