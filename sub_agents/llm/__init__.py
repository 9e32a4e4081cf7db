"""Sub-agents with a model behind them: planner, writers and repairer, each a LangGraph subgraph.

Names are loaded on first use: a run without a model pays nothing for them.
"""
