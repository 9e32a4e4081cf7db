"""Problem files; each is a script of its own, loaded by path."""
