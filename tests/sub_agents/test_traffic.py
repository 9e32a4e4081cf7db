"""The bound of a step's cost: a second factor is read and multiplied too."""

import pytest

from warpsmith.state.device import DeviceSheet
from warpsmith.state.program import MatmulProgram, Operand
from warpsmith.sub_agents.step_space import traffic_ms

RIGHT = Operand(value="b", dtype="bfloat16", strides=(64, 1))


@pytest.mark.parametrize("rate", [1e6, 1e30])
def test_two_products_beside_each_other_cost_both(rate: float) -> None:
    device = DeviceSheet(
        name="slow",
        arch="sm_90",
        sm_count=1,
        l2_bytes=1,
        shared_bytes_per_block=1,
        shared_bytes_per_sm=1,
        memory_bytes=1,
        peak_bytes_per_s=1e9,
        copy_bytes_per_s=1e9,
        peak_flops={"bf16": rate},
        matmul_flops={"bf16": rate},
    )
    left = Operand(value="a", dtype="bfloat16", strides=(32, 1))
    one = MatmulProgram(name="m", batch=(), m=16, n=64, k=32, a=left, b=RIGHT, loads=(), body=(), stores=())
    two = one.model_copy(update={"also": RIGHT})
    read, multiplied = 2 * (16 * 32 + 32 * 64), 2 * 16 * 64 * 32
    assert traffic_ms(one, {}, device) == pytest.approx(1e3 * max(read / 1e9, multiplied / rate))
    both = 1e3 * max((read + 2 * 32 * 64) / 1e9, 2 * multiplied / rate)
    assert traffic_ms(two, {}, device) == pytest.approx(both)
