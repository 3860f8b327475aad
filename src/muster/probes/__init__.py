"""Adapters of the probe port."""
