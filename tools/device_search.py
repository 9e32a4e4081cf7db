"""Which GPU there is to measure on, or which one a dry run stands for."""

import shutil
import subprocess
from pathlib import Path

from ..state.base import digest
from ..state.device import DeviceSheet
from ..state.errors import InvalidInput
from . import device_sheets, wire
from .fork_server import Spawn
from .harness_settings import HarnessSettings
from .server_process import ServerProcess, driver_name
from .whole_file import write_whole

_PROBE_S = 120.0
_ASK_S = 20.0
_LEAST_FREE_SHARE = 0.5
"""A GPU with less of its memory free is somebody else's."""


def expects_gpu(settings: HarnessSettings) -> bool:
    """Whether it is worth asking a worker for a GPU."""
    return settings.dry_run is not True and any(Path("/dev").glob("nvidia[0-9]*"))


def find(server: ServerProcess, work_dir: Path, settings: HarnessSettings) -> DeviceSheet:
    """The GPU as measured, or the target of a dry run. Raises InvalidInput where one is required and none usable."""
    versions = dict(server.hello().get("versions", {}))
    why = "a dry run was asked for" if settings.dry_run else "there is none"
    if expects_gpu(settings):
        sheet, why = _probe(server, work_dir, versions, settings.gpu)
        if sheet is not None:
            return sheet
    if settings.require_gpu:
        raise InvalidInput(f"--require-gpu: no usable GPU ({why}); leave it out for a dry run")
    return device_sheets.target_sheet(settings.arch, versions)


def _probe(
    server: ServerProcess, work_dir: Path, versions: dict[str, str], index: int
) -> tuple[DeviceSheet | None, str]:
    """The GPU as measured, once for a work folder, card, driver and set of versions; or why there is none."""
    card = _card(index)
    cache = work_dir / f"device-{digest(card, versions)[:12]}.json"
    if card and (known := _kept(cache)) is not None:
        return known, ""
    client = server.client
    pid, channel = client.spawn(Spawn("device"))
    try:
        reply = wire.receive(channel, _PROBE_S).body
    except wire.WireError as error:
        reply = {"gpu": None, "why": f"probing it failed: {error}"}
    finally:
        channel.close()
        client.kill(pid)
    gpu = reply["gpu"]
    if gpu is None:
        return None, str(reply["why"])
    if gpu["free_bytes"] < _LEAST_FREE_SHARE * gpu["memory_bytes"]:
        free, total = gpu["free_bytes"] >> 30, gpu["memory_bytes"] >> 30
        raise InvalidInput(f"GPU {index} is busy: {free} of {total} GiB are free; end what runs on it, or use --gpu")
    sheet = device_sheets.measured_sheet(gpu, versions)
    if card:
        write_whole(cache, sheet.model_dump_json())
    return sheet, ""


def _card(index: int) -> str:
    """What the driver says the card at an index is: another one may lie there tomorrow. Empty where it does not say."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return ""
    command = [smi, "-i", driver_name(index), "--query-gpu=uuid,name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _kept(cache: Path) -> DeviceSheet | None:
    """A sheet that was measured before; None where there is none, or one of another version's."""
    try:
        return DeviceSheet.model_validate_json(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
