"""Reports: complete, self-contained, escaped, honest."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from scripted.collaborators import SOURCE, ScriptedHarness

from warpsmith.graph import optimize
from warpsmith.graph.html import render_html
from warpsmith.graph.plot import HEIGHT, trajectory_plot
from warpsmith.graph.report import read_result
from warpsmith.state.evaluation import Status
from warpsmith.state.problem import Target
from warpsmith.state.trajectory import Result, TrajectoryEntry


class Page(HTMLParser):
    """Collects text, tags and links, and refuses what is not closed."""

    optional = {"tr", "td", "th", "li", "meta", "polyline", "line", "circle", "path"}

    def __init__(self) -> None:
        super().__init__()
        self.text, self.tags, self.links, self.open = "", [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.optional:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.optional:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parse(html: str) -> Page:
    page = Page()
    page.feed(html)
    assert page.open == []
    return page


@pytest.fixture
def result(problem_file, tmp_path, given) -> Result:
    target = Target(ms=0.7, gpu="B300", workload="default", source="a leaderboard")
    harness = ScriptedHarness(target=target)
    return optimize(problem_file, given=given(harness=harness, fates={32: "compile"}), out=str(tmp_path / "runs"))


def test_the_page_shows_what_a_reader_needs_and_loads_nothing(result):
    page = parse((Path(result.run_dir) / "report.html").read_text())
    assert page.links == []
    assert "script" not in page.tags
    for expected in (
        "Scripted H200",
        "triton 3.6.0",
        "class ModelNew",
        "cuda-graphs",
        "not counted: shown apart",
        "compile_error",
        "no such tile",
        "not comparable",
        "Precision policy",
        "void bound",
        "odd",
    ):
        assert expected in page.text, expected
    assert page.tags.count("circle") + page.tags.count("path") == result.tried
    assert "Estimated" not in page.text


def test_everything_is_escaped(result):
    evil = "<script>alert('x')</script>"
    spoiled = result.model_copy(
        update={
            "problem": evil,
            "plan": evil,
            "notes": (evil,),
            "trajectory": tuple(entry.model_copy(update={"message": evil}) for entry in result.trajectory),
        }
    )
    page = parse(render_html(spoiled, source=f"# {evil}\n"))
    assert "script" not in page.tags
    assert page.text.count(evil) >= 4


def test_a_result_comes_back_from_its_file(result):
    assert read_result(Path(result.run_dir)) == result


def test_a_run_without_a_kernel_says_so_on_its_page(problem_file, tmp_path, given):
    fates = dict.fromkeys((16, 32, 256, 128, 64, 512, 1024, 8, 4, 2), "wrong")
    failed = optimize(problem_file, given=given(fates=fates), out=str(tmp_path / "runs"))
    page = parse((Path(failed.run_dir) / "report.html").read_text())
    assert "No kernel." in page.text


def test_a_page_says_where_the_winner_was_compared_and_whether_at_all(result):
    assert "1 of 1 check passed, on default" in parse(render_html(result, "")).text
    unchecked = result.model_copy(update={"checks": ()})
    assert "nothing was compared, the winner was only compiled" in parse(render_html(unchecked, "")).text


def test_a_page_of_an_interrupted_run_claims_no_final_check(result):
    assert "final check's" in parse(render_html(result, "")).text
    cut_short = parse(render_html(result.model_copy(update={"complete": False}), "")).text
    assert "These are the quick check's." in cut_short
    assert "final check's" not in cut_short


def test_a_page_names_the_plan_and_the_suspected_limit(result):
    page = parse(render_html(result.model_copy(update={"plan": "two kernels", "bottleneck": "memory (0.9)"}), ""))
    assert "Plan: two kernels" in page.text
    assert "Suspected limit: memory (0.9)" in page.text


def entry(rank: float, status: Status = Status.PASSED) -> TrajectoryEntry:
    return TrajectoryEntry(id="k", language="cuda", phase="explore", round=1, status=status, rank=rank)


def test_the_plot_puts_twice_as_fast_and_half_as_fast_equally_far_from_one():
    plot = trajectory_plot([entry(0.5), entry(1.0), entry(2.0), entry(0.0, Status.TIMEOUT)])
    below, one, above, failed = plot.dots
    assert below.y - one.y == pytest.approx(one.y - above.y)
    assert (failed.failed, failed.y) == (True, plot.bottom)
    assert [tick.label for tick in plot.ticks] == ["0.5×", "1×", "2×"]
    assert all(0 <= dot.y <= HEIGHT for dot in plot.dots)


def test_the_plot_of_nothing_is_empty():
    plot = trajectory_plot([])
    assert (plot.dots, plot.line) == ((), "")


def test_a_problem_file_with_an_odd_name_gets_a_plain_folder(tmp_path, given):
    file = tmp_path / "my problem (1).py"
    file.write_text(SOURCE)
    result = optimize(file, given=given(), out=str(tmp_path / "runs"), budget=1)
    assert Path(result.run_dir).parent.name == "my_problem_1_"
