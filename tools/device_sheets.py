"""Data-sheet rates by architecture, for what no clock can tell: ceilings that void a claim, and dry-run targets.

Dense rates. Sources: NVIDIA H100/H200, A100, L40S and B200 data sheets.
"""

from typing import Any

from ..state.device import DeviceSheet
from ..state.errors import InvalidInput

_PEAK_FLOPS: dict[str, dict[str, float]] = {
    "sm_80": {"bf16": 312e12, "fp16": 312e12, "tf32": 156e12, "fp32": 19.5e12, "fp64": 19.5e12},
    "sm_89": {"bf16": 366e12, "fp16": 366e12, "tf32": 183e12, "fp32": 91.6e12, "fp64": 1.4e12},
    "sm_90": {"bf16": 989.5e12, "fp16": 989.5e12, "tf32": 494.7e12, "fp32": 66.9e12, "fp64": 66.9e12},
    "sm_100": {"bf16": 2250e12, "fp16": 2250e12, "tf32": 1120e12, "fp32": 75e12, "fp64": 37e12},
}
_PEAK_BYTES_PER_S = {"sm_80": 2.04e12, "sm_89": 0.864e12, "sm_90": 4.8e12, "sm_100": 8.0e12}

_TARGETS: dict[str, dict[str, Any]] = {
    "sm_80": {"name": "A100 (target)", "sm_count": 108, "l2_bytes": 40 << 20, "shared": 163 << 10, "memory": 80 << 30},
    "sm_89": {"name": "L40S (target)", "sm_count": 142, "l2_bytes": 96 << 20, "shared": 99 << 10, "memory": 48 << 30},
    "sm_90": {"name": "H200 (target)", "sm_count": 132, "l2_bytes": 60 << 20, "shared": 227 << 10, "memory": 141 << 30},
    "sm_100": {
        "name": "B200 (target)",
        "sm_count": 148,
        "l2_bytes": 126 << 20,
        "shared": 227 << 10,
        "memory": 180 << 30,
    },
}
_COPY_SHARE, _MATMUL_SHARE = 0.9, 0.78
"""What large copies and library products reach of the data sheet on an H200, used for targets that nobody measured."""


def measured_sheet(gpu: dict[str, Any], versions: dict[str, str]) -> DeviceSheet:
    """The sheet of a GPU that was probed; data-sheet rates from its architecture."""
    arch = str(gpu["arch"])
    peak = _PEAK_FLOPS.get(arch)
    if peak is None:
        # Unknown architecture: nothing is void unless it beats twice what a library reaches.
        peak = {name: 2 * rate for name, rate in gpu["matmul_flops"].items()}
    bandwidth = max(float(gpu["peak_bytes_per_s"]), _PEAK_BYTES_PER_S.get(arch, 0.0), gpu["copy_bytes_per_s"])
    known = {name: gpu[name] for name in DeviceSheet.model_fields if name in gpu}
    return DeviceSheet.model_validate(
        {**known, "peak_bytes_per_s": bandwidth, "peak_flops": peak, "versions": versions}
    )


def target_sheet(arch: str, versions: dict[str, str]) -> DeviceSheet:
    """The sheet of an architecture that a dry run compiles for. Raises InvalidInput for one it does not know."""
    if arch not in _TARGETS:
        raise InvalidInput(f"--arch {arch}: unknown; one of {', '.join(_TARGETS)}")
    target = _TARGETS[arch]
    peak = _PEAK_FLOPS[arch]
    return DeviceSheet(
        name=target["name"],
        arch=arch,
        simulated=True,
        sm_count=target["sm_count"],
        l2_bytes=target["l2_bytes"],
        shared_bytes_per_block=target["shared"],
        shared_bytes_per_sm=target["shared"] + 1024,
        memory_bytes=target["memory"],
        peak_bytes_per_s=_PEAK_BYTES_PER_S[arch],
        copy_bytes_per_s=_COPY_SHARE * _PEAK_BYTES_PER_S[arch],
        peak_flops=peak,
        matmul_flops={name: _MATMUL_SHARE * rate for name, rate in peak.items()},
        versions=versions,
    )
