"""Classify failures for the API: in a thread, and once per bundle while it is remembered.

Jobs write the text that is classified, and many clients may ask for one diagnosis at the same time.
"""

import asyncio
from functools import lru_cache

from muster.domain.diagnosis import Bundle, Diagnosis
from muster.domain.diagnosis_rules import classify
from muster.domain.operation import Operation
from muster.operations.evidence import evidence
from muster.ports.store import Store

REMEMBERED = 64
"""Bundles; each is two texts of 64 KiB at most."""

_classified = lru_cache(maxsize=REMEMBERED)(classify)


async def diagnose(store: Store, operation: Operation, *, now: float) -> Diagnosis | None:
    """Say why an operation failed. None: no node's failure was the reason, or nothing is known of it."""
    bundle = await evidence(store, operation, now=now)
    return None if bundle is None else await classify_bundle(bundle)


async def classify_bundle(bundle: Bundle) -> Diagnosis:
    """Classify a bundle beside the loop."""
    return await asyncio.to_thread(_classified, bundle)
