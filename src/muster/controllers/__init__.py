"""Perform the periodic duties: one per file, one reconcile() each, each held by one replica at a time."""
