"""Reading code out of what a model said."""
