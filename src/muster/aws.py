"""Name the partition of AWS that a region belongs to."""

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
