"""Source is parsed from many threads at once: candidates are read back while others are proposed."""

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from warpsmith.state.syntax import literal, parse

SOURCE = "\n".join(f"def f{n}(x):\n    return [[(x + {n}) * (x - 1), -x], {{'a': x[{n}:]}}]" for n in range(20))


@pytest.fixture
def switches_while_parsing() -> Iterator[None]:
    """Lets other threads run in the middle of a parse, as a garbage collection that runs Python code does."""

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


@pytest.mark.usefixtures("switches_while_parsing")
def test_threads_may_parse_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(parse, [SOURCE] * 20))
    assert all(len(tree.body) == 20 for tree in trees)


def test_errors_of_the_source_come_through() -> None:
    with pytest.raises(SyntaxError):
        parse("def f(:")


def test_a_parse_that_another_one_disturbed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def disturbed(source: str) -> ast.Module:
        calls.append(source)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=3, after=5)")
        return ast.Module(body=[], type_ignores=[])

    monkeypatch.setattr("warpsmith.state.syntax.ast.parse", disturbed)
    assert parse("x = 1").body == []
    assert calls == ["x = 1"] * 3


def test_a_parser_that_stays_broken_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(source: str) -> ast.Module:
        raise SystemError(source)

    monkeypatch.setattr("warpsmith.state.syntax.ast.parse", broken)
    with pytest.raises(SystemError):
        parse("x = 1")


@pytest.mark.usefixtures("switches_while_parsing")
def test_threads_may_read_literals_at_once() -> None:
    text = repr({f"slot{n}": [n, (n, -n), {"a": n}] for n in range(200)})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(literal, [text] * 20))
    assert all(each["slot7"] == [7, (7, -7), {"a": 7}] for each in found)


@pytest.mark.parametrize("text", ["x = 1", "1\n2", "", "print(1)"])
def test_what_is_not_one_literal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not one|malformed"):
        literal(text)
