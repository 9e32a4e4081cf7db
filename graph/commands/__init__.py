"""One module a command. They import what they run only when they run it, so that the command line starts at once."""
