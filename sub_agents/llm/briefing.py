"""What a model is told about a problem and a run so far: sections in a fixed order, each within its budget."""

from collections.abc import Sequence

from ...state.brief import Brief, Scored
from ...state.device import DeviceSheet
from ...state.evaluation import Evaluation, Status
from ...state.feedback import Feedback
from ...state.lowered import LoweredGraph
from ...state.plan import Plan
from ...state.problem import Problem
from ...state.timing import Baselines
from ...state.wording import estimated
from ...tools.roofline import bounds
from .api_notes import facts, instructions, known_errors
from .plain_words import operators_in_words, signature
from .prompts import render
from .sections import Section, fenced

MOST_KERNELS, MOST_FAILURES, MOST_DIFFS = 3, 5, 5
RUNNING_FAILURES = 3
"""Compile failures in a row after which the simplest structure is asked for."""
NAMES = {"triton": "Triton", "cuda": "CUDA"}
NORMAL = 3
"""The complexity at which writers are left to themselves."""


def problem_sections(
    problem: Problem, device: DeviceSheet, graph: LoweredGraph | None, baselines: Baselines | None
) -> list[Section]:
    """Reference, operators, signature, hardware, goal: what planner and writers both read."""
    found = [
        Section(title="Reference", text=fenced(problem.source, "python"), tokens=2000, keep="ends"),
        Section(title="Shapes, dtypes and layout", text=signature(problem), tokens=700),
        Section(title="Hardware", text=hardware(device), tokens=500),
        Section(title="Time to beat", text=goal(problem, device, graph, baselines), tokens=500),
    ]
    if graph is not None:
        found.insert(1, Section(title="What it computes", text=fenced(operators_in_words(graph)), tokens=1500))
    return found


def writer_sections(brief: Brief, language: str) -> list[Section]:
    """Everything that a writer is told, in order."""
    sections = problem_sections(brief.problem, brief.device, brief.graph, brief.baselines)
    sections.append(Section(title="Plan", text=plan_text(brief.plan), tokens=600))
    sections.append(Section(title=f"{NAMES[language]} notes", text=facts(language, brief.device), tokens=1400))
    optional = (
        ("Errors to avoid", errors_text(brief, language), 700),
        ("Seeds", _seeds_text(brief, language), 5000),
        ("Best kernels so far", "" if brief.seeds else _kernels_text(brief.pool[:MOST_KERNELS]), 6000),
        ("Changes that gained", _diffs_text(brief), 1500),
        ("Failures so far", _failures_text(brief) if brief.experience.failures else "", 800),
        ("Last verdicts", feedback_text(brief.feedback[-MOST_FAILURES:]), 1200),
    )
    sections += [
        Section(title=title, text=text, tokens=tokens, keep="ends") for title, text, tokens in optional if text
    ]
    return sections


def repair_sections(brief: Brief, source: str, verdict: str, language: str) -> list[Section]:
    """The failed file, what was said about it, and what it was to compute."""
    sections = problem_sections(brief.problem, brief.device, brief.graph, None)[:3]
    return [
        *sections,
        Section(title=f"{NAMES[language]} notes", text=facts(language, brief.device), tokens=1400),
        Section(title="The failed file", text=fenced(source, "python"), tokens=6000, keep="ends"),
        Section(title="What the harness said", text=fenced(verdict), tokens=1500, keep="ends"),
    ]


def directive_text(brief: Brief, angle: int) -> str:
    """What to write now: an angle of the round's directive, or a simpler structure after failures to compile."""
    return render("directives", directive=brief.directive, angle=angle, complexity=complexity(brief.history))


def complexity(statuses: Sequence[Status]) -> int:
    """How much structure to ask for, from 0 (the simplest) to `NORMAL`, after these verdicts in order.

    Three compile failures in a row drop it to 0; every kernel that compiles then raises it by one.
    """
    level, running = NORMAL, 0
    for status in statuses:
        running = running + 1 if status is Status.COMPILE_ERROR else 0
        if running >= RUNNING_FAILURES:
            level = 0
        elif status is not Status.COMPILE_ERROR:
            level = min(NORMAL, level + 1)
    return level


def hardware(device: DeviceSheet) -> str:
    rates = ", ".join(f"{name} {flops / 1e12:.4g}" for name, flops in device.peak_flops.items())
    return "\n".join(
        (
            f"{device.name} ({device.arch}): {device.sm_count} SMs, {device.registers_per_sm} registers and "
            f"{device.max_threads_per_sm} threads an SM",
            f"shared memory: {device.shared_bytes_per_sm >> 10} KiB an SM, at most "
            f"{device.shared_bytes_per_block >> 10} KiB a block; L2 {device.l2_bytes / 2**20:.3g} MiB",
            f"memory: {device.peak_bytes_per_s / 1e12:.3g} TB/s by data sheet, "
            f"{device.copy_bytes_per_s / 1e12:.3g} TB/s in a large copy",
            f"peak TFLOP/s: {rates or 'unknown'}",
            f"instructions: {instructions(device.arch)}",
        )
    )


def goal(problem: Problem, device: DeviceSheet, graph: LoweredGraph | None, baselines: Baselines | None) -> str:
    """Baselines, the speed of light and a published target, where they are known."""
    primary = problem.primary.name
    times = [e for e in baselines.entries if e.workload == primary and e.ms is not None] if baselines else []
    lines = [f"{entry.name}: {entry.ms:.4g} ms" for entry in times]
    if not lines:
        lines.append("nothing was timed: this is a dry run, kernels are ranked by estimate")
    if graph is not None and not graph.unsupported:
        bound = bounds(graph, device)
        lines.append(
            f"speed of light: {bound.sol_ms:.4g} ms ({bound.read_bytes / 1e6:.4g} MB to read, "
            f"{bound.write_bytes / 1e6:.4g} MB to write)"
        )
    if problem.target:
        lines.append(f"target: {problem.target.ms:.4g} ms on {problem.target.gpu} ({problem.target.source})")
    return "\n".join(lines)


def plan_text(plan: Plan) -> str:
    strategies = [f"- {s.name} (about {s.expected_speedup:.3g}x): {s.why}" for s in plan.strategies]
    return "\n".join([plan.summary, *strategies])


def errors_text(brief: Brief, language: str) -> str:
    """What often does not compile, and this run's own compile errors, each once."""
    lines = [*known_errors(language), *(f"in this run: {line}" for line in brief.compile_errors)]
    return fenced("\n".join(f"- {line}" for line in lines))


def feedback_text(feedback: Sequence[Feedback]) -> str:
    """The five fields, a line a candidate."""
    lines = []
    for each in feedback:
        told = (each.status, each.error_digest, each.time, each.trend, each.bottleneck)
        lines.append(f"{each.candidate}: " + "; ".join(str(part) for part in told if part))
    return fenced("\n".join(lines)) if lines else ""


def verdict_text(evaluation: Evaluation) -> str:
    """A failure for a repairer: status, message, the compiler's words. Hidden workloads by class only."""
    lines = [f"status: {evaluation.status.value}", evaluation.message]
    if evaluation.compile is not None and not evaluation.compile.ok:
        lines.append(evaluation.compile.error)
    for check in evaluation.checks:
        if not check.passed:
            where = "a hidden workload" if check.hidden else f"workload {check.workload}, draw {check.draw}"
            lines.append(f"wrong on {where}" + ("" if check.hidden or not check.worst else f": {check.worst}"))
    return "\n".join(dict.fromkeys(line for line in lines if line))


def _seeds_text(brief: Brief, language: str) -> str:
    parts = []
    for seed in brief.seeds[:2]:
        other = seed.candidate.language != language
        role = f"{seed.candidate.language.capitalize()} seed, to be read as pseudocode" if other else "Seed"
        parts.append(f"{role}, {_speed(seed)}:\n{fenced(seed.candidate.source, 'python')}")
    return "\n\n".join(parts)


def _kernels_text(pool: Sequence[Scored]) -> str:
    shown = []
    for scored in pool:
        title = f"{scored.candidate.id}, {scored.candidate.language}, {_speed(scored)}"
        shown.append(f"{title}:\n{fenced(scored.candidate.source, 'python')}")
    return "\n\n".join(shown)


def _speed(scored: Scored) -> str:
    timing, estimate = scored.evaluation.primary, scored.evaluation.estimate
    if timing is not None:
        return f"{timing.candidate.median_ms:.4g} ms, {scored.evaluation.rank:.3g}x"
    return estimated(estimate.sol_fraction) if estimate else scored.evaluation.status.value


def _diffs_text(brief: Brief) -> str:
    """Changes to kernels of this run that gained, measured twice."""
    changes = brief.experience.changes[-MOST_DIFFS:]
    return "\n\n".join(f"{1 + change.gain:.3g}x by:\n{fenced(change.diff, 'diff')}" for change in changes)


def _failures_text(brief: Brief) -> str:
    """The run's last failures, a line each."""
    return fenced("\n".join(f"- {line}" for line in brief.experience.failures[-MOST_FAILURES:]))
