"""The problems that Warpsmith ships: one file each, written for this suite."""
