"""Memory that the judge owns and a candidate's process maps: the only way values cross between them.

On a GPU a buffer is one physical allocation (`cuMemCreate`) exported as a POSIX file descriptor. Legacy CUDA IPC would
map the allocator's whole segment, expected values included, and fails in user namespaces. On a CPU it is a memfd.
Either way it is a flat array of bytes that tensors of any dtype and layout are laid over.
"""

import fcntl
import mmap
import os
from typing import Any, Protocol

import torch

from ...state.problem import TensorSpec

ALIGNMENT_BYTES = 256


def dtype_of(name: str) -> torch.dtype:
    """torch.dtype from its name without the prefix. Raises ValueError."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"no dtype {name!r}")
    return found


def dtype_name(dtype: torch.dtype) -> str:
    """torch's name without the prefix."""
    return str(dtype).removeprefix("torch.")


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    return TensorSpec(shape=tuple(tensor.shape), dtype=dtype_name(tensor.dtype), strides=tuple(tensor.stride()))


def storage_bytes(spec: TensorSpec) -> int:
    """Bytes between the first and the last element of a layout, inclusive."""
    if 0 in spec.shape:
        return 0
    extent = 1 + sum((n - 1) * s for n, s in zip(spec.shape, spec.strides, strict=True))
    return extent * dtype_of(spec.dtype).itemsize


class HostBuffer:
    """Bytes in a memfd, sealed: a process that cuts a shared file short kills whoever reads past the cut."""

    def __init__(self, size_bytes: int, fd: int | None = None) -> None:
        self.size_bytes = size_bytes
        self.fd = os.memfd_create("buffer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING) if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, max(size_bytes, mmap.PAGESIZE))
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._map = mmap.mmap(self.fd, max(size_bytes, mmap.PAGESIZE))
        self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)[:size_bytes]

    def export(self) -> int:
        """A descriptor to send to another process."""
        return self.fd


class _Pointer:
    """Device memory as torch reads it."""

    def __init__(self, pointer: int, size_bytes: int, owner: Any) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "data": (pointer, False),
            "shape": (size_bytes,),
            "typestr": "|u1",
            "version": 3,
        }


class DeviceBuffer:
    """Bytes on the current GPU in an allocation of their own."""

    held_bytes = 0
    """What all buffers that this process made take of the device; those of other processes are theirs."""

    def __init__(self, size_bytes: int, fd: int | None = None) -> None:
        from cuda.bindings import driver

        torch.cuda.current_stream()  # the primary context exists from here on
        device = torch.cuda.current_device()
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        properties.requestedHandleTypes = kind
        minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        granularity = _checked(driver.cuMemGetAllocationGranularity(properties, minimum))
        self.size_bytes = size_bytes
        self._padded = max(granularity, -(-size_bytes // granularity) * granularity)
        if fd is None:
            self._handle = _checked(driver.cuMemCreate(self._padded, properties, 0))
            DeviceBuffer.held_bytes += self._padded
        else:
            self._handle = _checked(driver.cuMemImportFromShareableHandle(fd, kind))
        self._pointer = _checked(driver.cuMemAddressReserve(self._padded, 0, 0, 0))
        _checked(driver.cuMemMap(self._pointer, self._padded, 0, self._handle, 0))
        access = driver.CUmemAccessDesc()
        access.location = properties.location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _checked(driver.cuMemSetAccess(self._pointer, self._padded, [access], 1))
        self._kind, self._made_here = kind, fd is None
        self.bytes = torch.as_tensor(_Pointer(int(self._pointer), self._padded, self), device=f"cuda:{device}")

    def export(self) -> int:
        """A descriptor to send to another process; the caller closes it."""
        from cuda.bindings import driver

        return int(_checked(driver.cuMemExportToShareableHandle(self._handle, self._kind, 0)))

    def release(self) -> None:
        """Unmaps and frees; every tensor over it must be gone."""
        from cuda.bindings import driver

        torch.cuda.synchronize()
        del self.bytes
        _checked(driver.cuMemUnmap(self._pointer, self._padded))
        _checked(driver.cuMemAddressFree(self._pointer, self._padded))
        _checked(driver.cuMemRelease(self._handle))
        DeviceBuffer.held_bytes -= self._padded * self._made_here


Buffer = HostBuffer | DeviceBuffer


class Bytes(Protocol):
    """Flat memory that tensors can be laid over."""

    @property
    def bytes(self) -> torch.Tensor: ...


def _checked(result: Any) -> Any:
    code, *values = result
    if int(code) != 0:
        if "OUT_OF_MEMORY" in str(code):
            raise torch.OutOfMemoryError(str(code))
        raise RuntimeError(f"CUDA driver: {code}")
    return values[0] if values else None


def allocate(size_bytes: int, device: torch.device) -> Buffer:
    """A buffer that this process owns. Raises OutOfMemoryError."""
    if device.type != "cuda":
        return HostBuffer(size_bytes)
    try:
        return DeviceBuffer(size_bytes)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()  # what PyTorch keeps for reuse is no use to the driver
    return DeviceBuffer(size_bytes)


def open_buffer(fd: int, size_bytes: int, device: torch.device) -> Buffer:
    """Maps a buffer that another process exported."""
    return DeviceBuffer(size_bytes, fd) if device.type == "cuda" else HostBuffer(size_bytes, fd)


def view(buffer: Bytes, spec: TensorSpec, offset_bytes: int = 0) -> torch.Tensor:
    """A tensor of the given layout over a buffer, from a byte offset that its dtype divides."""
    dtype = dtype_of(spec.dtype)
    length = storage_bytes(spec)
    flat = buffer.bytes[offset_bytes : offset_bytes + length].view(dtype) if length else None
    if flat is None:
        return torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device=buffer.bytes.device)
    return flat.as_strided(spec.shape, spec.strides, flat.storage_offset())


class Layout:
    """Places several tensors in one buffer, aligned to 256 bytes as by the allocator, then moved by a skew."""

    def __init__(self, specs: list[TensorSpec], skew_bytes: list[int] | None = None) -> None:
        self.specs = specs
        self.skew_bytes = skew_bytes or [0] * len(specs)
        self.offsets: list[int] = []
        position = 0
        for spec, skew in zip(specs, self.skew_bytes, strict=True):
            self.offsets.append(position + skew)
            position += -(-(storage_bytes(spec) + skew) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.size_bytes = max(position, ALIGNMENT_BYTES)

    def views(self, buffer: Bytes, first_byte: int = 0) -> list[torch.Tensor]:
        """The tensors, where the layout begins at that byte of the buffer."""
        places = zip(self.specs, self.offsets, strict=True)
        return [view(buffer, spec, offset + first_byte) for spec, offset in places]

    def as_json(self) -> dict[str, Any]:
        return {
            "specs": [spec.model_dump() for spec in self.specs],
            "skew_bytes": self.skew_bytes,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Layout":
        return cls([TensorSpec.model_validate(spec) for spec in data["specs"]], data["skew_bytes"])
