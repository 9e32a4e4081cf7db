"""Runs rendered matrix-product kernels: in Triton's interpreter on the CPU, on a GPU, or compiled without running.

As a program (`TRITON_INTERPRET=1 python -m programs.matmul_run interpret TEMPLATE ...`) it interprets every case under
several settings and prints one JSON object of errors by template: the interpreter must be chosen before triton is
imported, so tests start a process.
"""

import importlib
import importlib.util
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from programs.cover import cover_over, every_choice
from programs.matmul_cases import Case, answer, cases, large_cases, relative_error, tensors
from programs.sheets import H200

from warpsmith.state.sizes import value as number
from warpsmith.sub_agents.kernel_source import KernelSource, Template
from warpsmith.sub_agents.slots import Setting
from warpsmith.tools.worker.resources import of_cubin

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


def settings(template: Template, given: Case, turn: int = 0) -> list[Setting]:
    """The default, and legal settings that meet every choice of every slot; each turn puts other choices together."""
    slots = template.slots(given.program, given.hints, H200)
    first = defaults(template, given)
    others = list(every_choice(slots, partial(is_legal, template, given), turn))
    return [first, *others] if is_legal(template, given, first) else others


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


def odd_sizes(given: Case) -> dict[str, int]:
    """Symbols' values other than those that a kernel is made for."""
    return {name: size + 5 for name, size in given.hints.items()}


def called_with(given: Case) -> list[dict[str, int]]:
    """Symbols' values for calls of one kernel: those it was made for, and odd ones."""
    return [given.hints, odd_sizes(given)] if given.hints else [{}]


def interpret(template: Template) -> dict[str, float | str]:
    """Errors by case and setting; text where one raised."""
    errors: dict[str, float | str] = {}
    for label, given, setting in chosen(template):
        key = f"{label} {json.dumps(setting)}"
        try:
            errors[key] = max(
                worst_error(template, replace(given, hints=hints), setting) for hints in called_with(given)
            )
        except Exception as error:  # noqa: BLE001 - the parent's assertion shows it
            errors[key] = f"{type(error).__name__}: {error}"[-2000:]
    return errors


def chosen(template: Template) -> Iterator[tuple[str, Case, Setting]]:
    """Each case with the default and with a setting of what was not met before; more until every choice is met."""
    # Hundreds of matrices take an interpreter long: only where nothing smaller fits.
    fitting = {
        label: given
        for label, given in cases().items()
        if template.fits(given.program, given.hints) and label.startswith("many") == template.name.endswith("small")
    }
    met: set[tuple[str, Any]] = set()
    left: list[tuple[str, Case, Setting]] = []
    for turn, (label, given) in enumerate(fitting.items()):
        first, *others = settings(template, given, turn)
        yield label, given, first
        others.sort(key=lambda setting: len(setting.items() - met), reverse=True)
        for setting in others[:1]:
            met |= setting.items()
            yield label, given, setting
        left += [(label, given, setting) for setting in others[1:]]
    for label, given, setting in reversed(left):
        if setting.items() - met:
            met |= setting.items()
            yield label, given, setting


class Target:
    """Stands in for Triton's driver, so that kernels compile for sm_90 where there is no GPU."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0


def compiled(template: Template, given: Case, setting: Setting) -> list[Any]:
    """Triton's compiled kernels for a setting, without launching: `.asm`, `.metadata`, by order of launch."""
    import torch
    import triton

    triton.runtime.driver.set_active(Target())
    source = template.render(given.program, setting, given.values)
    module = load(source)
    made: list[Any] = []

    class Warm:
        def __init__(self, kernel: Any) -> None:
            self.kernel = kernel

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *args, **kwargs: made.append(self.kernel.warmup(*args, grid=grid, **kwargs))

    for name, each in list(vars(module).items()):
        if isinstance(each, triton.runtime.JITFunction) and name.endswith("_kernel"):
            setattr(module, name, Warm(each))
    inputs = {
        name: torch.empty([number(s, given.hints) for s in shape], dtype=getattr(torch, dtype), device="meta")
        for name, (shape, dtype) in given.values.items()
    }
    outputs(module, source, given, inputs)
    return made


def resources(kernel: Any) -> dict[str, Any]:
    """Registers, spills and shared bytes of the cubin, and which tensor cores it uses."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        tool = Path(knobs.nvidia.cuobjdump.path)
        usage = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    (facts,) = of_cubin(kernel.asm["cubin"], 90)
    assert facts.sass is not None
    return {
        "registers": int(re.findall(r"REG:(\d+)", usage)[0]),
        "stack_bytes": int(re.findall(r"STACK:(\d+)", usage)[0]),
        "local_bytes": sum(int(found) for found in re.findall(r"LOCAL:(\d+)", usage)),
        "spills": facts.sass.local_accesses,
        "shared_bytes": kernel.metadata.shared,
        "wgmma": facts.sass.tensor.get("HGMMA", 0),
        "mma": facts.sass.tensor.get("HMMA", 0),
    }


def compile_defaults(template: Template) -> dict[str, Any]:
    """Resources of each kernel of the default settings at sizes that fill a GPU."""
    found: dict[str, Any] = {}
    for label, given in large_cases().items():
        if not template.fits(given.program, given.hints):
            continue
        setting = defaults(template, given)
        for i, kernel in enumerate(compiled(template, given, setting)):
            found[f"{label} {i} {json.dumps(setting)}"] = resources(kernel)
    return found


def is_legal(template: Template, given: Case, setting: Setting) -> bool:
    return template.legal(given.program, setting, given.hints, H200)


def compile_cover(template: Template) -> dict[str, Any]:
    """Shared bytes of every kernel of a pairwise cover of legal settings over four large cases."""
    found: dict[str, Any] = {}
    fitting = {label: large_cases()[label] for label in ("fp32_linear", "bf16_nn", "bf16_vector", "many_48")}
    cover = cover_over(
        {
            label: (template.slots(given.program, given.hints, H200), partial(is_legal, template, given))
            for label, given in fitting.items()
            if template.fits(given.program, given.hints)
        }
    )
    for label, setting in cover:
        for i, kernel in enumerate(compiled(template, fitting[label], setting)):
            found[f"{label} {i} {json.dumps(setting)}"] = {"shared_bytes": kernel.metadata.shared}
    return found


def main() -> None:
    action = {"interpret": interpret, "compile": compile_defaults, "cover": compile_cover}[sys.argv[1]]
    print(json.dumps({name: action(template_named(name)) for name in sys.argv[2:]}))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
