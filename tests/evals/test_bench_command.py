"""What commands on a bench have in common: options, rows that are kept at once, exit statuses."""

from pathlib import Path

import pytest

from warpsmith.evals import measure_library, run_llm, run_search, run_suite
from warpsmith.evals.bench_command import BenchCommand, bench_settings, kept_rows
from warpsmith.graph.settings import make_context
from warpsmith.state.errors import InvalidInput


def made(**fields: object) -> BenchCommand:
    return BenchCommand(name="run_it", description="Runs it.", topic="it", **fields)


@pytest.mark.parametrize("module", [measure_library, run_llm, run_search, run_suite])
def test_a_command_is_named_after_its_module(module):
    assert module.COMMAND.module == module.__name__


def test_defaults_follow_the_topic():
    options = made(problems="p,q").parser().parse_args([])
    assert (options.out, options.runs) == (Path("docs/results/it.json"), Path("runs/it"))
    assert (options.problems, options.shard, options.gpu) == ("p,q", "0/1", 0)
    assert "resume" not in options
    assert made(resumes=True).parser().parse_args(["--resume"]).resume


def test_processes_on_several_devices_have_a_folder_each():
    options = made().parser().parse_args(["--gpu", "1", "--runs", "there", "--baselines", "times.json", "--dry-run"])
    settings = bench_settings(options)
    assert settings == {
        "gpu": 1,
        "out": "there/gpu1",
        "baselines": "times.json",
        "dry_run": True,
        "require_gpu": False,
    }
    assert make_context(settings).gpu == 1
    assert bench_settings(made().parser().parse_args([]))["dry_run"] is None  # Whether there is a GPU is seen then.


def test_rows_are_kept_and_told_before_the_next_is_measured(capsys):
    kept: list[int] = []

    def measure(case: int) -> int:
        assert len(kept) == case
        if case == 2:
            raise KeyboardInterrupt
        return case * 10

    with pytest.raises(KeyboardInterrupt):
        kept_rows(range(3), measure, kept.append, lambda row: f"row {row}")
    assert kept == [0, 10]
    assert capsys.readouterr().err == "row 0\nrow 10\n"


@pytest.mark.parametrize(
    ("error", "resumes", "status", "said"),
    [
        (InvalidInput("no such thing"), False, 2, "run_it: no such thing\n"),
        (KeyboardInterrupt(), False, 130, "run_it: interrupted; what is done is in it.json\n"),
        (KeyboardInterrupt(), True, 130, "run_it: interrupted; what is done is in it.json, and --resume goes on\n"),
    ],
)
def test_what_ends_a_command_is_its_status_and_one_line(capsys, error, resumes, status, said):
    def run() -> int:
        raise error

    assert made(resumes=resumes).exit_status(Path("it.json"), run) == status
    assert capsys.readouterr().err == said


def test_otherwise_the_status_is_the_runs_own(capsys):
    assert [made().exit_status(Path("it.json"), lambda status=status: status) for status in (0, 1)] == [0, 1]
    assert capsys.readouterr().err == ""
