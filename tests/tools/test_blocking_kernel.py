"""The kernel that holds the GPU before a timed call compiles without one, once."""

import base64

from warpsmith.tools import blocking_kernel


def test_it_compiles_once_into_machine_code_that_is_kept(tmp_path):
    made = blocking_kernel.cubin("sm_90", tmp_path)
    assert base64.b64decode(made).startswith(b"\x7fELF")
    (tmp_path / "blocking-kernel-sm_90.txt").write_text("kept")
    assert blocking_kernel.cubin("sm_90", tmp_path) == "kept"


def test_an_architecture_that_nothing_compiles_for_gives_none(tmp_path):
    assert blocking_kernel.cubin("sm_1", tmp_path) == ""
    assert not list(tmp_path.iterdir())
