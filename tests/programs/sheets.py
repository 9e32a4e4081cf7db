"""The device that tests of templates and writers plan for."""

from warpsmith.state.device import DeviceSheet

H200 = DeviceSheet(
    name="H200",
    arch="sm_90",
    sm_count=132,
    l2_bytes=50 * 2**20,
    shared_bytes_per_block=232448,
    shared_bytes_per_sm=233472,
    memory_bytes=141 * 10**9,
    peak_bytes_per_s=4.8e12,
    copy_bytes_per_s=4.3e12,
)
