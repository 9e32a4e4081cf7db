"""Element types by PyTorch's names: what one element takes in memory."""

BYTES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4}
BYTES |= {"int64": 8, "float64": 8, "complex64": 8, "complex128": 16}
