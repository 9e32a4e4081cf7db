"""Boxes and what the kernel counts by user: each box has a user of its own, and few enough processes."""

import os
import subprocess
import sys

import pytest

from warpsmith.tools import box_users
from warpsmith.tools.box_users import next_user
from warpsmith.tools.worker.session import CandidateFailed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="boxes are Linux's")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="an unprivileged harness has no privileges to drop")

FORKS = """
import os, time
found = 0
while found < {most}:
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    found += 1
"""


@root_only
def test_processes_are_bounded(boxes):
    assert boxes.report(FORKS.format(most=200), max_processes=32) < 32


@root_only
@pytest.mark.parametrize(("other", "starved"), [(70_002, False), (70_001, True)])
def test_one_that_takes_all_its_processes_starves_only_boxes_of_its_own_user(boxes, other, starved):
    hog, path = boxes.start(FORKS.format(most=200), max_processes=24, user=70_001)
    with pytest.raises(CandidateFailed, match="ModelNew"):
        hog.ask("load", 30.0, path=str(path))
    found = boxes.report(FORKS.format(most=12), max_processes=24, user=other)
    assert (found < 12) is starved


def test_no_two_boxes_have_one_user():
    users = [next_user() for _ in range(100)]
    assert len(set(users)) == 100
    assert all(box_users._FIRST <= user < box_users._AFTER_LAST for user in users)


def test_harnesses_give_out_users_of_their_own():
    """In two containers they may be processes of one number, and the kernel still counts both as one user's."""
    program = "from warpsmith.tools.box_users import next_user; print(next_user())"
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(2)]
    assert abs(int(runs[0].stdout) - int(runs[1].stdout)) > 16


KEYRING = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
found = libc.syscall(250 if os.uname().machine == "x86_64" else 219, 0, -3, 0)
"""


def test_every_box_has_a_keyring_of_its_own(boxes):
    """A key in one that they share is a note from candidate to candidate, and a secret of the harness's session."""
    users = {"user": 70_003} if os.geteuid() == 0 else {}
    rings = [boxes.report(KEYRING, **users) for _ in range(2)]
    if min(rings) < 0:
        pytest.skip("the kernel refuses keys")
    assert rings[0] != rings[1]
