"""Threads and gradients of torch for tests that compare many tensors in this process."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def one_thread_without_gradients() -> Iterator[None]:
    import torch  # not every test here needs it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)
