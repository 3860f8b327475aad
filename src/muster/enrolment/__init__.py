"""The agent's side of the server: joining, signals, heartbeats, desired state. Knows nothing of HTTP."""
