"""Nsight Compute's command line and what it prints.

    ncu --csv --page raw --log-file FILE ... PROGRAM

prints a header row, a row of units, and a row a kernel, among lines that begin with `==`. Clocks are left as they are
(`--clock-control none`): they are the card's, and others may use it.
"""

import csv
import re
import shutil
from collections.abc import Sequence
from itertools import dropwhile
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from .metrics import METRICS, Metric

_FOLDERS = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
_TO_BASE = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "nsecond": 1e-9,
    "usecond": 1e-6,
    "msecond": 1e-3,
    "second": 1.0,
    "byte": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "hz": 1.0,
    "Hz": 1.0,
    "Khz": 1e3,
    "KHz": 1e3,
    "Mhz": 1e6,
    "MHz": 1e6,
    "Ghz": 1e9,
    "GHz": 1e9,
    "cycle/nsecond": 1e9,
    "cycle/usecond": 1e6,
    "cycle/second": 1.0,
    "cycle/ns": 1e9,
    "cycle/us": 1e6,
    "cycle/s": 1.0,
}
_REASONS = (
    ("no permission", r"ERR_NVGPUCTRPERM|permission"),
    ("the driver gives no counters", r"driver resource was unavailable|LibraryNotLoaded|No supported GPUs"),
    ("another profiler is active", r"InterprocessLockFailed|already|concurrent"),
    ("nothing captured", r"No kernels were profiled"),
)


class Launched(NamedTuple):
    """One kernel as the profiler saw it; metric values in base units (seconds, bytes, Hz), fractions in [0, 1]."""

    name: str
    stream: str
    grid: str
    values: dict[str, float]


def find(name: str = "ncu") -> str | None:
    """Path of the program, on PATH or where CUDA's installers put it; None where there is none."""
    found = shutil.which(name)
    if found is not None:
        return found
    places = [Path(folder) / name for folder in _FOLDERS]
    places += sorted(Path("/opt/nvidia/nsight-compute").glob(f"*/{name}"), reverse=True)
    return next((str(place) for place in places if place.is_file()), None)


def arguments(metrics: Sequence[Metric], log: str, *, flush_each_kernel: bool) -> list[str]:
    """Options before the program. It switches capture on itself, around the calls that are to be seen."""
    return [
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--log-file",
        log,
        "--clock-control",
        "none",
        "--cache-control",
        "all" if flush_each_kernel else "none",
        "--profile-from-start",
        "off",
        "--target-processes",
        "application-only",
        "--metrics",
        ",".join(metric.name for metric in metrics if metric.asked),
    ]


def unknown_metrics(log: str) -> set[str]:
    """Names that this version does not know."""
    return set(re.findall(r"==(?:ERROR|WARNING)==.*?[Ff]ailed to find metric\s+([\w.]+)", log))


def read(log: str) -> list[Launched]:
    """Every kernel of a log, in order; none where it holds no table."""
    lines = [line for line in log.splitlines() if not line.startswith("==")]
    table = list(csv.reader(dropwhile(lambda line: not line.startswith('"ID"'), lines)))
    if len(table) < 3:
        return []
    header, units, *rows = table
    place = {name: number for number, name in enumerate(header)}
    return [_launched(row, place, units) for row in rows if len(row) == len(header) and row[0].isdigit()]


def _launched(row: list[str], place: dict[str, int], units: list[str]) -> Launched:
    values = {}
    for metric in METRICS:
        column = place.get(metric.name)
        number = None if column is None else _number(row[column])
        if column is None or number is None:
            continue
        if metric.percent:
            values[metric.name] = min(1.0, max(0.0, number / 100))
        else:
            values[metric.name] = number * _TO_BASE.get(units[column], 1.0)
    text = {key: row[place[key]] if key in place else "" for key in ("Kernel Name", "Stream", "Grid Size")}
    return Launched(text["Kernel Name"], text["Stream"], text["Grid Size"], values)


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None  # `n/a`, or a word
    return number if isfinite(number) else None


def known_reason(log: str) -> str:
    """What a log's words mean, where they are known; empty otherwise."""
    return next((reason for reason, pattern in _REASONS if re.search(pattern, log)), "")


def failure(log: str, fallback: str) -> str:
    """Why a log holds no kernel, in a few words."""
    errors = [line.removeprefix("==ERROR==").strip() for line in log.splitlines() if line.startswith("==ERROR==")]
    return known_reason(log) or (errors[0][:200] if errors else fallback)
