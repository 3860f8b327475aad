"""Builds and tests the page of `web/`, on any machine that has Python."""
