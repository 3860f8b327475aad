"""Protocols whose docstrings are contracts. One contract suite per port runs against every adapter."""
