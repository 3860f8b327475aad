"""An identity provider as far as a relying party meets it, and as hostile as a test wants it to be.

The certified provider of tests/browser shows that sign-in works. This one shows that it fails where it must:
it signs with the wrong key, for another audience, twice, late, or not at all.
"""

from fakes.oidc.issuer import HostileIssuer

__all__ = ["HostileIssuer"]
