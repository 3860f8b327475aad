BUSY = 600.0
"""Real seconds for worlds that only compute and end by themselves: a busy machine may take its time."""
