"""Kernels of earlier runs: kept when verified, offered to problems of the same structure, shown on the command line."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from programs import examples
from scripted.collaborators import GPU, SOURCE, ScriptedWriter, kernel

from warpsmith.graph import optimize
from warpsmith.graph.cli import main
from warpsmith.graph.library import Library, LibraryEntry, offered, structure_key
from warpsmith.state.brief import Brief
from warpsmith.state.candidate import Candidate
from warpsmith.state.errors import InvalidInput
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem, Workload
from warpsmith.sub_agents.triton_writer import TritonWriter

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
"""


def planned(forward) -> Plan:
    return Plan(summary="", strategies=(), forward=forward)


def brief(plan: Plan, source: str = SOURCE, **fields) -> Brief:
    problem = Problem(name="p", path="p.py", source=source, workloads=(Workload(name="default"),))
    return Brief(problem=problem, device=GPU, plan=plan, language="triton", directive="explore", **fields)


def entry(candidate: Candidate, plan: Plan, problem_id: str = "another", **fields) -> LibraryEntry:
    about = {"gpu": GPU.name, "problem": "other", "speedup": 1.5, "made": "2026-01-01T00:00:00+00:00", **fields}
    return LibraryEntry(
        candidate=candidate,
        structure=structure_key(plan),
        problem_id=problem_id,
        workloads={"default": 0.5},
        warpsmith_version="0",
        **about,
    )


def test_sizes_do_not_make_another_structure_and_operators_do():
    small, large = planned(examples.softmax(64, 128)), planned(examples.softmax(4096, 8192))
    assert structure_key(small) == structure_key(large) != ""
    assert structure_key(planned(examples.relu_add(64, 128))) != structure_key(small)
    assert structure_key(Plan(summary="", strategies=())) == ""


def test_a_templates_kernel_is_written_anew_for_another_shape(tmp_path):
    known, new = planned(examples.softmax(4096, 2048)), planned(examples.softmax(512, 1024))
    made = TritonWriter().propose(brief(known, REFERENCE), 3)[-1]
    library = Library(tmp_path / "library.sqlite")
    library.add(entry(made, known))
    (found,) = offered(library, brief(new, REFERENCE), TritonWriter())
    assert found.id != made.id
    assert found.slots["softmax.template"] == made.slots["softmax.template"]
    assert found.note == "from the library: 1.5x on other"
    compile(found.source, "best.py", "exec")


def test_a_setting_that_does_not_fit_another_shape_is_offered_as_the_nearest_that_does(tmp_path):
    known, new, writer = planned(examples.softmax(16384, 8191)), planned(examples.softmax(10240, 12287)), TritonWriter()
    persistent = [
        made
        for made in writer.propose(brief(known, REFERENCE), 8)
        if made.slots["softmax.template"] == "triton_row_persistent"
    ]
    assert persistent
    for number, made in enumerate(persistent):
        library = Library(tmp_path / f"{number}.sqlite")
        library.add(entry(made, known))
        (found,) = offered(library, brief(new, REFERENCE), writer)
        changed = {name for name, value in found.slots.items() if made.slots[name] != value}
        assert "softmax.columns" in changed  # A row is held whole: 8192 elements hold no row of 12287.
        assert len(changed) <= 3


def test_a_free_kernel_is_offered_as_it_is_and_never_twice(tmp_path):
    plan = planned(examples.softmax(64, 128))
    free = kernel("triton", 64).model_copy(update={"slots": {}, "origin": "llm"})
    library = Library(tmp_path / "library.sqlite")
    library.add(entry(free, plan))
    assert [each.id for each in offered(library, brief(plan), None)] == [free.id]
    assert offered(library, brief(plan, tried=frozenset({free.id})), None) == []


@pytest.mark.parametrize("other", [{"gpu": "another GPU"}, {"structure": "0123"}])
def test_only_the_same_gpu_and_structure_are_offered(tmp_path, other):
    plan = planned(examples.softmax(64, 128))
    library = Library(tmp_path / "library.sqlite")
    library.add(entry(kernel("triton", 64), plan).model_copy(update=other))
    assert offered(library, brief(plan), None) == []


def test_the_fastest_come_first_and_at_most_two(tmp_path):
    plan = planned(examples.softmax(64, 128))
    library = Library(tmp_path / "library.sqlite")
    for tile, speedup in ((16, 1.1), (32, 2.0), (64, 1.7)):
        free = kernel("triton", tile).model_copy(update={"slots": {}})
        library.add(entry(free, plan, speedup=speedup))
    expected = [kernel("triton", tile).id for tile in (32, 64)]
    assert [each.id for each in offered(library, brief(plan), None)] == expected


class Planned:
    """A planner whose plan has a structure, so that the library can tell problems apart."""

    def plan(self, problem, graph, device):
        return planned(examples.softmax(64, 128))


def test_a_second_run_starts_from_what_the_first_has_found(problem_file, tmp_path, given):
    library = tmp_path / "kept" / "library.sqlite"
    first = optimize(
        problem_file, given=given(planner=Planned()), out=str(tmp_path), library=str(library), languages="triton"
    )
    writer = ScriptedWriter("triton")
    second = optimize(
        problem_file,
        given=given(planner=Planned(), writers={"triton": writer}),
        out=str(tmp_path),
        library=str(library),
        languages="triton",
    )
    assert second.trajectory[0].id == first.best
    assert second.trajectory[0].asked == "library"
    assert first.best in writer.briefs[0].tried  # The writer need not propose it again.
    assert len(Library(library).entries()) == 1


def test_a_library_that_takes_nothing_up_costs_no_result(problem_file, tmp_path, given, monkeypatch):
    def locked(*_: object) -> None:
        raise InvalidInput("library.sqlite: is not a library (database is locked); choose another file")

    monkeypatch.setattr(Library, "add", locked)
    settings = {"out": str(tmp_path), "library": str(tmp_path / "library.sqlite"), "languages": "triton"}
    result = optimize(problem_file, given=given(planner=Planned()), **settings)
    assert (result.complete, result.outcome) == (True, "verified")
    assert any("not added to the library" in note and "locked" in note for note in result.notes)


def test_a_kernel_of_another_version_is_not_offered_and_told_in_one_line(tmp_path, capsys):
    file = tmp_path / "library.sqlite"
    old, new = kernel("triton", 64), kernel("triton", 128)
    for made in (old, new):
        Library(file).add(entry(made, planned(examples.softmax(64, 128))))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("update kernels set entry = ? where id = ?", ('{"candidate": {}}', old.id))
    plan = planned(examples.softmax(64, 128))
    assert [each.id for each in offered(Library(file), brief(plan), None)] == []
    found = Library(file).find(structure_key(plan), GPU.name, "triton")
    assert [each.candidate.id for each in found] == [new.id]
    assert command("list", "--library", file) == 0
    assert command("show", new.id, "--library", file) == 0
    capsys.readouterr()
    for arguments in (("show", old.id), ("export", old.id, tmp_path / "best.py")):
        assert command(*arguments, "--library", file) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert old.id in said
        assert "another version" in said


def test_nothing_unverified_enters(problem_file, tmp_path, given):
    from scripted.collaborators import ScriptedHarness

    library = tmp_path / "library.sqlite"
    harness = ScriptedHarness(dry=True)
    optimize(problem_file, given=given(planner=Planned(), harness=harness), out=str(tmp_path), library=str(library))
    assert not library.exists()


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["library", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_the_command_lists_shows_and_exports(tmp_path, capsys):
    file = tmp_path / "library.sqlite"
    made = kernel("cuda", 64)
    Library(file).add(entry(made, planned(examples.softmax(64, 128))))
    assert command("list", "--library", file) == 0
    assert made.id[:8] in (listed := capsys.readouterr().out)
    assert "1.5x" in listed
    assert command("show", made.id[:6], "--library", file) == 0
    assert made.source in capsys.readouterr().out
    target = tmp_path / "best.py"
    assert command("export", made.id, target, "--library", file) == 0
    assert target.read_text() == made.source
    assert command("export", made.id, target, "--library", file) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"no database at all, but long enough to look like a header of one" * 20])
def test_a_missing_or_broken_library_is_one_line(tmp_path, capsys, content):
    file: Path = tmp_path / "library.sqlite"
    if content:
        file.write_bytes(content)
    assert command("list", "--library", file) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert str(file) in said


def test_an_id_that_fits_nothing_is_refused(tmp_path):
    library = Library(tmp_path / "library.sqlite")
    library.add(entry(kernel("triton", 64), planned(examples.softmax(64, 128))))
    with pytest.raises(InvalidInput, match="0 kernels begin with 'zz'"):
        library.entry("zz")
