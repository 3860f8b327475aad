"""The settings [otlp]."""

from dataclasses import dataclass
from pathlib import Path

from muster.config import values
from muster.config.tables import Table
from muster.domain.errors import InvalidRequest

OTLP = "otlp"
HEADERS_MOST = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpConfig:
    """Where traces go. Without an endpoint, no trace is made."""

    endpoint: str | None = None
    """Of a collector: `/v1/traces` is added."""
    headers_file: Path | None = None
    """A file of `Name: value` lines, for a collector that wants a key."""
    service_name: str = "muster"
    sample: float = 1.0
    """The share of traces that are exported. A caller that named a parent decides by its own flag."""

    @property
    def url(self) -> str:
        return f"{self.endpoint}/v1/traces"


def _share(name: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidRequest(name, value, "must be a number from 0 to 1")
    return float(value)


SETTINGS = Table(
    kind=OtlpConfig,
    keys={
        "endpoint": values.url,
        "sample": _share,
    },
    environment=("endpoint",),
    private=("headers_file",),
)


def headers(config: OtlpConfig) -> dict[str, str]:
    """Read the headers. Raises InvalidRequest for a file that can't be read, and never shows its content."""
    path = config.headers_file
    if path is None:
        return {}
    try:
        with path.open(encoding="latin-1") as file:
            lines = [line.strip() for line in file.read(HEADERS_MOST).splitlines() if line.strip()]
    except OSError as error:
        why = f"must be a file that can be read: {error.strerror}"
        raise InvalidRequest("otlp.headers_file", str(path), why) from error
    found = dict(_header(path, number, line) for number, line in enumerate(lines, start=1))
    if not found:
        raise InvalidRequest("otlp.headers_file", str(path), "must have a line like `Authorization: …`")
    return found


def _header(path: Path, number: int, line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if (
        not colon
        or not name.replace("-", "").isalnum()
        or not (line.isascii() and value.strip().isprintable())
    ):
        rule = f"must have lines like `Authorization: …` in ASCII; line {number} is not one"
        raise InvalidRequest("otlp.headers_file", str(path), rule)
    return name, value.strip()
