"""compute-sanitizer's command line and the XML that it saves: a `record` a finding.

The file may end in the middle, when the program under it died, so records are read one by one.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import NamedTuple

from ...state.evidence import Hazard, SanitizerResult, SanitizerTool
from ..kernel_names import kind_of
from ..profiling.ncu import find as find_program

TOOLS: tuple[SanitizerTool, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
"""PyTorch's allocator hands out parts of large blocks: a store past one's end would still lie in memory that exists."""
_RECORD = re.compile(r"<record>.*?</record>", re.DOTALL)
_MOST_RECORDS = 10_000


class Finding(NamedTuple):
    """One record of the file."""

    level: str
    hazard: Hazard


def find() -> str | None:
    """Path of the program; None where there is none."""
    return find_program("compute-sanitizer")


def arguments(tool: SanitizerTool, log: str) -> list[str]:
    """Options before the program.

    Errors that the CUDA API returns are no findings here: libraries probe for features by asking for them. Only the
    program itself is looked at, not the compilers that it starts.
    """
    options = ["--tool", tool, "--target-processes", "application-only", "--xml", "--save", log]
    if tool == "memcheck":
        options += ["--report-api-errors", "no"]
    return options


def read(log: str) -> list[Finding]:
    """Every whole record, in order."""
    found = []
    for text in _RECORD.findall(log)[:_MOST_RECORDS]:
        try:
            record = ElementTree.fromstring(text)
        except ElementTree.ParseError:
            continue  # a name with characters that XML does not allow: the next record stands for itself
        found.append(_finding(record))
    return found


def _finding(record: ElementTree.Element) -> Finding:
    size = _text(record, "what/size")
    return Finding(
        level=_text(record, "level") or "Error",
        hazard=Hazard(
            kernel=_text(record, "where/func") or _text(record, ".//func"),
            kind=(_text(record, "what/text") or _text(record, "what/error") or _text(record, "kind") or "no text")[
                :300
            ],
            size_bytes=int(size) if size.isdigit() else None,
        ),
    )


def _text(record: ElementTree.Element, path: str) -> str:
    found = record.find(path)
    return " ".join((found.text or "").split()) if found is not None else ""


def verdict(tool: SanitizerTool, log: str, own: set[str], workload: str) -> SanitizerResult:
    """What a log accuses the candidate of: its first error.

    Set aside are warnings and information (racecheck warns of hazards that code inside one warp means to have), and
    but for memcheck the kernels of libraries: PyTorch's own read padding that nobody wrote, and synchronise by means
    that racecheck does not follow. Scratch memory that one of its own kernels reads unwritten is a finding.
    """
    findings = read(log)
    accusing = [f for f in findings if f.level.lower() == "error" and (tool == "memcheck" or _is_its(f.hazard, own))]
    if accusing:
        return SanitizerResult(
            tool=tool,
            outcome="hazard",
            workload=workload,
            hazard=accusing[0].hazard,
            set_aside=len(findings) - len(accusing),
        )
    return SanitizerResult(tool=tool, outcome="clean", workload=workload, set_aside=len(findings))


def is_whole(log: str) -> bool:
    """Whether the tool wrote its file to the end."""
    return log.rstrip().endswith(("</ComputeSanitizerOutput>", "<ComputeSanitizerOutput/>"))


def not_run(tool: SanitizerTool, reason: str) -> SanitizerResult:
    """A tool that gave no answer."""
    return SanitizerResult(tool=tool, outcome="not run", reason=reason)


def _is_its(hazard: Hazard, own: set[str]) -> bool:
    """Whether a kernel is the candidate's: by its name, or because it looks like no library's."""
    return kind_of(hazard.kernel, own) in ("own", "other")


def in_words(results: Sequence[SanitizerResult]) -> str:
    """The first hazard as one line; empty if there is none."""
    for result in results:
        if result.hazard is not None:
            where = f" in {result.hazard.kernel}" if result.hazard.kernel else ""
            return f"{result.tool} on {result.workload}: {result.hazard.kind}{where}"
    return ""
