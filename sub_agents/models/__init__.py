"""Chat models behind one interface: endpoint, structured output, usage, budgets, and the record of what was asked."""
