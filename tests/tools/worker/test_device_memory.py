"""What a candidate may keep of the device's memory."""

import pytest
import torch

from warpsmith.state.evaluation import Status
from warpsmith.tools.worker import buffers, device_memory
from warpsmith.tools.worker.device_memory import DeviceMemory, nothing
from warpsmith.tools.worker.session import CandidateFailed

GIB = 1 << 30


def taking(*bytes_of_others: int) -> DeviceMemory:
    readings = iter(bytes_of_others)
    return DeviceMemory(GIB, lambda: (next(readings), 80 * GIB))


def test_what_was_there_before_is_not_its_doing() -> None:
    taking(50 * GIB, 60 * GIB).hold()


def test_more_than_half_of_the_device_is_too_much() -> None:
    with pytest.raises(CandidateFailed, match=r"keeps 44\.0 GiB of device memory; 40\.0 GiB are allowed") as failed:
        taking(GIB, 45 * GIB).hold()
    assert failed.value.status is Status.RESOURCE


def test_large_tensors_of_its_own_are_allowed() -> None:
    readings = iter((0, 70 * GIB))
    DeviceMemory(20 * GIB, lambda: (next(readings), 80 * GIB)).hold()


def test_without_a_gpu_nothing_is_taken() -> None:
    DeviceMemory(0, nothing).hold()


def test_the_judges_own_share_is_not_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers of a workload are made while the first candidate is judged, and large ones are not its doing."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100, 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 200)
    monkeypatch.setattr(buffers.DeviceBuffer, "held_bytes", 300)
    assert device_memory.of_others() == (400, 1000)
