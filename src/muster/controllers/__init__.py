"""Perform the periodic duties: one class with one reconcile() each, held by one replica at a time."""
