"""Fixed clocks while something is measured, for people's own machines: off unless asked for.

A lock is a setting of the card and outlives the process, so it is refused where anybody else uses the card, and undone
on every way out that a process has: return, exception, Ctrl-C, SIGTERM, SIGHUP. `kill -9` it cannot see: then
`nvidia-smi -rgc` undoes it by hand. A lock that was there before is not put back: the card cannot be asked for it.
"""

import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ..state.errors import InfraError, InvalidInput
from ..state.wording import counted
from .server_process import driver_name

_DEADLINE_S = 20.0
_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def locked_clocks(gpu: int) -> Iterator[int]:
    """Locks the graphics clock at its default for applications, else at its maximum; gives it in MHz.

    Raises InvalidInput where there is no `nvidia-smi`, where other processes use the card, or where it refuses;
    InfraError where the lock cannot be undone.
    """
    smi, card = shutil.which("nvidia-smi"), driver_name(gpu)
    if smi is None:
        raise InvalidInput("--lock-clocks: there is no nvidia-smi on PATH; leave the option out")
    card_command = (smi, "-i", card)
    others = _asked(card_command, "--query-compute-apps=pid", "--format=csv,noheader").split()
    if others:
        raise InvalidInput(
            f"--lock-clocks: GPU {card} has {counted(len(others), 'other process', 'other processes')}; end what runs "
            "there, or leave the option out"
        )
    mhz = _default_mhz(card_command)
    with _handled(_stop, *_ENDING):  # they would end the process at once: no `finally`
        try:
            _asked(card_command, "-lgc", f"{mhz},{mhz}")
            yield mhz
        finally:
            _restore(card_command, card)


def _default_mhz(card_command: tuple[str, ...]) -> int:
    fields = "clocks.default_applications.graphics,clocks.max.graphics"
    answer = _asked(card_command, f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    clocks = [int(field) for field in answer.replace(",", " ").split() if field.isdigit()]
    if not clocks:
        raise InvalidInput("--lock-clocks: the card names no clock to lock at; leave the option out")
    return clocks[0]


def _restore(card_command: tuple[str, ...], card: str) -> None:
    try:
        with _handled(signal.SIG_IGN, signal.SIGINT, *_ENDING):  # an impatient second Ctrl-C
            _asked(card_command, "-rgc")
    except InvalidInput as error:
        raise InfraError(f"GPU {card}: its clocks may still be locked; run `nvidia-smi -i {card} -rgc`") from error


def _asked(card_command: tuple[str, ...], *arguments: str) -> str:
    """What nvidia-smi prints. A Ctrl-C meant for this process does not reach it, so it always finishes."""
    try:
        done = subprocess.run(
            [*card_command, *arguments],
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidInput(f"--lock-clocks: nvidia-smi {arguments[0]} does not work: {error}") from error
    if done.returncode:
        why = " ".join((done.stdout + done.stderr).split())[:200]
        raise InvalidInput(f"--lock-clocks: nvidia-smi {arguments[0]} refuses ({why}); it needs an administrator")
    return done.stdout


def _stop(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def _handled(handler: Any, *signals: signal.Signals) -> Iterator[None]:
    """A handler for signals meanwhile. Outside the main thread, where Python allows none, they stay as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
