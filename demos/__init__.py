"""Muster shown against stand-ins for services that not everybody has at hand."""
