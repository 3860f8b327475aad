"""Print the OpenAPI document of the API, without a running server: `python -m tools.openapi > FILE`."""

import sys

import msgspec

from muster.api.routes import described

if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.format(described(), indent=2) + b"\n")
