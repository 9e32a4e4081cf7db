"""`python -m warpsmith`."""

from warpsmith.graph.cli import main

if __name__ == "__main__":
    main()
