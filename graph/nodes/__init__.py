"""The controller's nodes: plain functions from state to a partial state."""
