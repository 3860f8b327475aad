"""Hash secrets. Only hashes are stored."""

import hashlib


def hashed(secret: str) -> str:
    """Secrets are compared by hash and never stored. They are long and random, so no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()
