"""Runs rendered matrix-product kernels: in Triton's interpreter on the CPU, on a GPU, or compiled without running.

As a program (`TRITON_INTERPRET=1 python -m programs.matmul_run TEMPLATE ...`) it interprets every case under several
settings and prints one JSON object of errors: the interpreter must be chosen before triton is imported, so tests start
a process.
"""

import importlib
import importlib.util
import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from warpsmith.state.device import DeviceSheet
from warpsmith.sub_agents.kernel_source import KernelSource, Template
from warpsmith.sub_agents.slots import Setting

from programs.matmul_cases import Case, answer, cases, relative_error, tensors

H200 = DeviceSheet(
    name="H200",
    arch="sm_90",
    sm_count=132,
    l2_bytes=50 * 2**20,
    shared_bytes_per_block=232448,
    shared_bytes_per_sm=233472,
    memory_bytes=141 * 10**9,
    peak_bytes_per_s=4.8e12,
    copy_bytes_per_s=4.3e12,
)
_numbers = itertools.count()


def load(source: KernelSource) -> Any:
    """The source as a module. Triton reads a kernel's text from its file, so there must be one."""
    folder = Path(tempfile.mkdtemp())
    path = folder / f"kernel_{next(_numbers)}.py"
    path.write_text("\n".join(source.imports) + "\n\n\n" + source.code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def defaults(template: Template, given: Case) -> Setting:
    return {slot.name: slot.default for slot in template.slots(given.program, given.hints, H200)}


def settings(template: Template, given: Case) -> list[Setting]:
    """The default, and for each slot's every choice a legal setting that is the default elsewhere."""
    first = defaults(template, given)
    made = [first]
    for slot in template.slots(given.program, given.hints, H200):
        made += [first | {slot.name: choice} for choice in slot.choices if choice != slot.default]
    return [setting for setting in made if template.legal(given.program, setting, given.hints, H200)]


def outputs(module: Any, source: KernelSource, given: Case, inputs: dict[str, Any]) -> list[Any]:
    """Calls the host function as a candidate's forward would."""
    arguments = [inputs[name] for name in source.reads] + [given.hints[name] for name in source.symbols]
    result = getattr(module, source.function)(*arguments)
    return list(result) if isinstance(result, tuple) else [result]


def worst_error(template: Template, given: Case, setting: Setting, device: str = "cpu") -> float:
    """The largest relative error over the stores."""
    inputs = tensors(given, device=device)
    source = template.render(given.program, setting, given.values)
    results = outputs(load(source), source, given, inputs)
    expected = answer(given, inputs)
    names = [given.values[store.value] for store in given.program.stores]
    for result, (_, dtype) in zip(results, names, strict=True):
        assert str(result.dtype) == f"torch.{dtype}", f"{result.dtype} instead of {dtype}"
    return max(relative_error(mine, want) for mine, want in zip(results, expected, strict=True))


def template_named(name: str) -> Template:
    """`triton_matmul` names `TritonMatmul` in the module of that name."""
    module = importlib.import_module(f"warpsmith.sub_agents.templates.{name}")
    made: Template = getattr(module, "".join(part.title() for part in name.split("_")))()
    return made


def interpret(names: list[str]) -> dict[str, float | str]:
    """Errors by template, case and setting; text where one raised."""
    errors: dict[str, float | str] = {}
    for name in names:
        template = template_named(name)
        for turn, (label, given) in enumerate(cases().items()):
            if not template.fits(given.program, given.hints):
                continue
            # A few settings a case, not all: over the cases every choice is met.
            every = settings(template, given)
            others = [every[1 + (turn * 3 + i) % (len(every) - 1)] for i in range(3) if len(every) > 1]
            for setting in [every[0], *others]:
                key = f"{name} {label} {json.dumps(setting)}"
                try:
                    errors[key] = worst_error(template, given, setting)
                except Exception as error:  # noqa: BLE001 - the parent's assertion shows it
                    errors[key] = f"{type(error).__name__}: {error}"[-2000:]
    return errors


def main() -> None:
    print(json.dumps(interpret(sys.argv[2:])))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
