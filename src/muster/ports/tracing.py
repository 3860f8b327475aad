"""The span that the present work belongs to: what its caller named, or the operation that is driven.

Tasks inherit it. An operation that is submitted meanwhile becomes a child of it.
"""

from contextvars import ContextVar

CURRENT: ContextVar[str] = ContextVar("traceparent", default="")
"""As `traceparent` of the W3C Trace Context; empty: none."""
