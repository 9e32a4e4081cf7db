"""Records: what is known. Frozen pydantic models, no torch, no I/O."""
