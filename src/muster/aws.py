"""What AWS calls its parts: the partition that a region belongs to."""

_PARTITIONS = {
    "cn-": "aws-cn",
    "eu-isoe-": "aws-iso-e",
    "eusc-": "aws-eusc",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "us-isof-": "aws-iso-f",
}
"""By how their regions are called; all others are in `aws`."""


def partition(region: str) -> str:
    """The second word of every ARN of a region."""
    return next((name for prefix, name in _PARTITIONS.items() if region.startswith(prefix)), "aws")
