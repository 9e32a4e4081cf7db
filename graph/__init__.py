"""The controller: nodes, routers, Python API, batch and command line."""
