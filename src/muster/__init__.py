"""Muster: a control plane that hands out ready compute.

This package root owns the version and nothing else. Import from the subpackages; nothing is re-exported here,
so importing one layer never pulls in another.
"""

__version__ = "0.2.0"
