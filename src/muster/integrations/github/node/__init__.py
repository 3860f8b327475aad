"""Programs for nodes: stdlib alone, for Python 3.8 or later. Sent as text; nothing here imports another."""
