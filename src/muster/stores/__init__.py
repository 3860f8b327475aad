"""Adapters of the store port, and what they share: sql (SQLite; PostgreSQL joins it)."""
