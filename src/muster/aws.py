"""What the adapters to AWS share: the partition of a region, and which certificates a client needs."""

_PARTITIONS = {
    "cn-": "aws-cn",
    "eu-isoe-": "aws-iso-e",
    "eusc-": "aws-eusc",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "us-isof-": "aws-iso-f",
}
"""By the prefix of the region; all other regions are in `aws`."""


def partition(region: str) -> str:
    """Return the second part of every ARN of a region."""
    return next((name for prefix, name in _PARTITIONS.items() if region.startswith(prefix)), "aws")


def verifies(endpoint_url: str | None) -> bool | None:
    """Return `verify` for a client of the SDK; None: as the SDK does.

    An emulator's http:// has no certificate to verify. The SDK would still read all that the machine
    trusts, for each client anew.
    """
    return False if (endpoint_url or "").startswith("http://") else None
