"""What nodes do for a run, beyond what their agent knows. One folder per runtime."""
