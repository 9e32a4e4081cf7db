import torch
import torch.nn.functional as F
from programs.examples import EXAMPLES, inputs
from programs.interpreter import run_plan

EXPECTED = {
    "relu_add": lambda x, b: torch.relu(x + b),
    "softmax": lambda x: x.softmax(-1),
    "softmax_middle": lambda x: x.softmax(1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
    "sum_all": lambda x: x.square().mean(),
    "argmax_rows": lambda x: [x.argmax(0), x.amax(0)],
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "linear_relu": lambda x, w, b: torch.relu(F.linear(x, w, b)),
    "bmm_bf16": lambda a, b, r: (a.float() @ b.float() + r).bfloat16(),
    "transposed_bf16_two_outputs": lambda x, g: [(x.T.float() * g + 1).bfloat16(), x.T.float() * g + 1 > 0],
}


def test_every_example_computes_what_its_docstring_says():
    for name, plan in EXAMPLES.items():
        drawn = inputs(name)
        base = name.removesuffix("_symbolic").removesuffix("_bf16") if name not in EXPECTED else name
        expected = EXPECTED[base](*[t.float() if name == "layer_norm_bf16" else t for t in drawn])
        if name == "layer_norm_bf16":
            expected = expected.bfloat16()
        torch.testing.assert_close(run_plan(plan, drawn), expected, msg=lambda text, name=name: f"{name}: {text}")
