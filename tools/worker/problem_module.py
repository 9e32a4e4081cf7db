"""The user's problem file as a module, and what it declares. Imported only in workers."""

import hashlib
import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from ...state.errors import InvalidProblem
from ...state.problem import PRECISIONS, Problem, Target, Workload
from . import buffers, draws, structure

CPU, META = torch.device("cpu"), torch.device("meta")
DTYPES = {"float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"}


class ProblemModule:
    """A loaded problem file. Every fault of the file raises InvalidProblem naming it."""

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        self.source = source
        self.module = _execute(path, source)
        if not callable(getattr(self.module, "Model", None)):
            raise self.fault("defines no class Model; add the reference as `class Model(torch.nn.Module)`")
        if not callable(getattr(self.module, "get_inputs", None)):
            raise self.fault("defines no function get_inputs; add one that returns the list of forward's arguments")
        if not callable(getattr(self.module, "get_init_inputs", None)):
            self.module.__dict__["get_init_inputs"] = list

    def fault(self, text: str) -> InvalidProblem:
        return InvalidProblem(f"{self.path}: {text}")

    def init_arguments(self) -> list[Any]:
        """Arguments of the constructor. Tensors among them are not supported."""
        try:
            made = self.module.get_init_inputs()
            arguments = list(made)
            _, tensors = structure.flatten(arguments)
        except structure.UnsupportedLeaf as error:
            raise self.fault(f"get_init_inputs: {error}") from error
        except Exception as error:
            raise self.raised("get_init_inputs", error) from error
        if isinstance(made, dict) or self._by_keyword(arguments):
            raise self.fault("get_init_inputs must return one list, Model's arguments by position, without keywords")
        if tensors:
            raise self.fault("get_init_inputs gives tensors; give numbers and build them in the constructor")
        return arguments

    def _by_keyword(self, arguments: list[Any]) -> bool:
        """Whether they are [[by position], {by name}], as some collections of problems have it."""
        if len(arguments) != 2 or not isinstance(arguments[0], list) or not isinstance(arguments[1], dict):
            return False
        return bool(arguments[1]) and set(arguments[1]) <= set(inspect.signature(self.module.Model).parameters)

    def raised(self, what: str, error: BaseException) -> InvalidProblem:
        """The fault of a function of the file that raised."""
        return InvalidProblem(f"{self.path}: {_raising(what, error)}")

    def model(self, device: torch.device, rng_seed: int) -> torch.nn.Module:
        """A reference instance, built under a seed on a device."""
        arguments = self.init_arguments()
        torch.manual_seed(rng_seed)
        try:
            with torch.device(device):
                model = self.module.Model(*arguments)
        except Exception as error:
            raise self.raised("Model(...)", error) from error
        if not isinstance(model, torch.nn.Module):
            raise self.fault("Model is no torch.nn.Module")
        return model.to(device)

    def inputs(self, arguments: dict[str, Any], device: torch.device, rng_seed: int | None = None) -> list[Any]:
        """`get_inputs(**arguments)` on a device, under a seed where one is given."""
        call = f"get_inputs({', '.join(f'{k}={v!r}' for k, v in arguments.items())})" if arguments else "get_inputs"
        if rng_seed is not None:
            draws.seed_all(rng_seed, device)
        try:
            with torch.device(device):
                made = self.module.get_inputs(**arguments)
                listed = hasattr(made, "__iter__") and not isinstance(made, torch.Tensor | dict | str)
                # A generator would be spent after one pass, and raises only now; a list can be walked again.
                values = list(made) if listed else None
        except Exception as error:
            raise self.raised(call, error) from error
        if values is None:
            raise self.fault("get_inputs must return a list of forward's arguments")
        if not values:
            raise self.fault("get_inputs returns nothing")
        try:
            return [_moved(value, device) for value in values]
        except structure.UnsupportedLeaf as error:
            raise self.fault(f"{call}: {error}") from error

    def inputs_to_describe(self, arguments: dict[str, Any]) -> list[Any]:
        """Inputs of which only the layouts are looked at: without memory, or on the CPU where get_inputs needs values
        (it reads a number off a tensor, or moves tensors by hand)."""
        try:
            return self.inputs(arguments, META)
        except InvalidProblem:
            return self.inputs(arguments, CPU, 0)

    def default(self, argument: str) -> Any:
        """The default of one of get_inputs' arguments; None where it has none."""
        found = inspect.signature(self.module.get_inputs).parameters[argument].default
        return None if found is inspect.Parameter.empty else found

    def describe(self) -> Problem:
        """What the file declares, with the inputs' layouts."""
        timed = {"default": {}, **self._named_arguments("workloads")}
        checked = self._named_arguments("checks")
        workloads = [self.workload(name, arguments, timed=True) for name, arguments in timed.items()]
        workloads += [self.workload(name, a, timed=False) for name, a in checked.items() if name not in timed]
        precision: Any = getattr(self.module, "precision", "reference")
        if precision not in PRECISIONS:
            raise self.fault(f"precision is {precision!r}; one of {', '.join(PRECISIONS)}")
        layouts: Any = getattr(self.module, "layouts", "given")
        if layouts not in ("given", "any"):
            raise self.fault(f"layouts is {layouts!r}; one of given, any")
        baselines = self._declared("baselines", "name -> callable")
        for name, call in baselines.items():
            if not callable(call):
                raise self.fault(f"baselines[{name!r}] is no callable")
        return Problem(
            name=self.path.stem,
            path=str(self.path),
            source=self.source,
            workloads=tuple(workloads),
            ranges=self._ranges(),
            init_arguments=structure.flatten(self.init_arguments())[0],
            precision=precision,
            layouts=layouts,
            target=self._target(),
            baselines=tuple(str(name) for name in baselines),
        )

    def _declared(self, name: str, holds: str) -> dict[Any, Any]:
        """An optional module-level dict."""
        found = getattr(self.module, name, None) or {}
        if not isinstance(found, dict):
            raise self.fault(f"{name} must be a dict: {holds}")
        return found

    def _ranges(self) -> dict[str, tuple[int, int]]:
        accepted = inspect.signature(self.module.get_inputs).parameters
        ranges = {}
        for name, ends in self._declared("ranges", "argument of get_inputs -> (least, greatest)").items():
            whole = isinstance(ends, tuple | list) and len(ends) == 2 and all(type(end) is int for end in ends)
            if name not in accepted or not whole or ends[0] > ends[1]:
                raise self.fault(f"ranges[{name!r}] must be two integers, least first, for an argument of get_inputs")
            usual = self.default(name)
            if isinstance(usual, int) and not ends[0] <= usual <= ends[1]:
                raise self.fault(f"ranges[{name!r}] leave out {usual}, the default of get_inputs; widen them")
            ranges[name] = (ends[0], ends[1])
        return ranges

    def _target(self) -> Target | None:
        found = getattr(self.module, "target", None)
        try:
            return Target.model_validate(found) if found else None
        except ValidationError as error:
            wrong = ", ".join(str(e["loc"][0]) if e["loc"] else str(e["msg"]) for e in error.errors())
            raise self.fault(f"target needs ms, gpu, workload and source; wrong: {wrong}") from error

    def _named_arguments(self, attribute: str) -> dict[str, dict[str, Any]]:
        declared = self._declared(attribute, "name -> keyword arguments of get_inputs")
        for name, arguments in declared.items():
            if not isinstance(arguments, dict) or not _is_json(arguments):
                raise self.fault(f"{attribute}[{name!r}] must be a dict of numbers, strings, lists and dicts of these")
        return {str(name): arguments for name, arguments in declared.items()}

    def workload(self, name: str, arguments: dict[str, Any], timed: bool) -> Workload:
        accepted = inspect.signature(self.module.get_inputs).parameters
        unknown = [key for key in arguments if key not in accepted]
        if unknown:
            raise self.fault(f"workload {name!r} passes {unknown[0]!r}, which get_inputs does not take")
        values = self.inputs_to_describe(arguments)
        try:
            _, tensors = structure.flatten(values)
        except structure.UnsupportedLeaf as error:
            raise self.fault(f"get_inputs: {error}") from error
        if any(tensor.layout is not torch.strided for tensor in tensors):
            raise self.fault("get_inputs: a sparse tensor is not supported; give its parts and build it in forward")
        if tensors and not any(tensor.numel() for tensor in tensors):
            raise self.fault(f"workload {name!r} is empty: get_inputs gives no element at all")
        specs = [buffers.spec_of(tensor) for tensor in tensors]
        for spec in specs:
            if spec.dtype not in DTYPES:
                raise self.fault(f"get_inputs: dtype {spec.dtype} is not supported")
        return Workload(
            name=name,
            timed=timed,
            arguments=arguments,
            inputs=tuple(_input_entry(value) for value in values),
            input_bytes=sum(buffers.storage_bytes(spec) for spec in specs),
        )


def first_line(error: BaseException) -> str:
    """An exception in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _raising(what: str, error: BaseException) -> str:
    """That something raises; where it asks for a GPU that is not there, what to do instead."""
    if any(name in str(error) for name in ("CUDA", "NVIDIA")) and not torch.cuda.is_available():
        return f"{what} asks for a CUDA device and there is none here; leave the device out: the harness sets it"
    return f"{what} raises {first_line(error)}"


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _input_entry(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return buffers.spec_of(value).model_dump()
    description, _ = structure.flatten(value)
    return description.get("literal", description)


def _moved(value: Any, device: torch.device) -> Any:
    """Tensors that a file makes on the CPU by hand go to the device, layout kept. Raises UnsupportedLeaf."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        raise structure.UnsupportedLeaf(f"{type(value).__name__} is a named tuple; give a plain tuple, list or dict")
    if isinstance(value, list | tuple):
        return type(value)(_moved(item, device) for item in value)
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    return value


def _execute(path: Path, source: str) -> types.ModuleType:
    name = f"problem_{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except SyntaxError as error:
        raise InvalidProblem(f"{path}: line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise InvalidProblem(f"{path}: {_raising('importing it', error)}") from error
    return module
