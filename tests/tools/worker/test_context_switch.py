"""The judge's second context, by a driver that notes what it is asked."""

import base64
import sys
from typing import Any

import pytest
import torch

from warpsmith.tools.worker.context_switch import ContextSwitch

GPU = torch.device("cuda", 0)
CUBIN = base64.b64encode(b"a cubin").decode()


class Driver:
    """As `cuda.bindings.driver`; CUDA 12's makes a context from two arguments, CUDA 13's from three."""

    def __init__(self, version: int) -> None:
        self.CUDA_VERSION = version
        self.current: list[str] = []
        self.ran: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: (0, name)

    def cuCtxCreate(self, *arguments: Any) -> tuple[int, str]:
        if len(arguments) != (3 if self.CUDA_VERSION >= 13_000 else 2):
            raise TypeError(f"{len(arguments)} arguments")
        self.current.append("second")
        return 0, "second"

    def cuCtxPushCurrent(self, context: str) -> tuple[int]:
        self.current.append(context)
        return (0,)

    def cuCtxPopCurrent(self) -> tuple[int, str]:
        return 0, self.current.pop()

    def cuLaunchKernel(self, *_: Any) -> tuple[int]:
        self.ran.append(self.current[-1])
        return (0,)


@pytest.mark.parametrize("version", [12_060, 12_090, 13_000, 13_050])
def test_a_kernel_runs_in_the_second_context_and_leaves_the_first_current(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cuda.bindings")
    driver = Driver(version)
    monkeypatch.setattr("cuda.bindings.driver", driver, raising=False)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    switch = ContextSwitch(GPU, CUBIN)
    assert driver.current == []
    switch()
    assert (driver.ran, driver.current) == (["second"], [])


def test_without_a_gpu_or_a_kernel_to_run_there_is_none() -> None:
    for switch in (ContextSwitch(torch.device("cpu"), CUBIN), ContextSwitch(GPU, "")):
        switch()
