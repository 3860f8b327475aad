"""What a template says about its containers, checked. Nothing here knows how they are made."""

import re
from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import InvalidRequest

DOCKER = "docker"
"""The provider's name."""
HOST_NETWORK = "host"
PIDS_LEAST, PIDS_MOST = 16, 1_000_000
TMP_MOST = 1_048_576
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9]+(?:[._:/-]+[a-z0-9]+)*?)(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_IMAGE_MOST = 512
_USER = re.compile(r"[0-9]{1,10}(:[0-9]{1,10})?", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_CAPABILITY = re.compile(r"[A-Z][A-Z_]{1,31}", re.ASCII)
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]{1,255}", re.ASCII)


class Pull(StrEnum):
    IF_MISSING = "if-missing"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image's name in its parts. There always is a tag: without one an engine would pull all."""

    name: str
    reference: str
    """A tag or a digest."""

    @property
    def whole(self) -> str:
        return f"{self.name}{'@' if self.reference.startswith('sha256:') else ':'}{self.reference}"

    @property
    def registry(self) -> str:
        """The host it comes from, as credentials are kept by."""
        host, slash, _ = self.name.partition("/")
        return host if slash and ("." in host or ":" in host or host == "localhost") else "docker.io"


def image_of(text: object) -> Image | None:
    """Split an image's name; None if it is none."""
    found = _IMAGE.fullmatch(text) if isinstance(text, str) and len(text) <= _IMAGE_MOST else None
    if found is None:
        return None
    return Image(name=found["name"], reference=found["digest"] or found["tag"] or "latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSpec:
    image: str
    """With sh and python3 3.8 or newer in it."""
    pull: Pull = Pull.IF_MISSING
    python: str = "python3"
    """The interpreter for the agent, by name or path in the image."""
    user: str = ""
    """A numeric user, or user:group. Empty: the image's own."""
    read_only: bool = True
    """Whether the image's files can't be changed. What runs there writes to its workspace and to /tmp."""
    capabilities: tuple[str, ...] = ()
    """Kernel capabilities to keep. All others are dropped."""
    pids: int = 4096
    """Processes and threads at once."""
    tmp_mib: int = 256
    """The most that /tmp may hold. It lies in memory and counts there."""
    network: str = ""
    """`host`, or a network of the engine. Empty: what the engine's settings say."""
    runtime: str = ""
    """An OCI runtime that the engine knows, such as runsc. Empty: the engine's default."""

    def __post_init__(self) -> None:
        if image_of(self.image) is None:
            raise InvalidRequest("image", self.image, "must be an image like registry.example.com/ci/base:1")
        checks.word("pull", self.pull, Pull)
        checks.matching("python", self.python, _PROGRAM, "must be a program's name or path")
        if self.user != "":
            checks.matching(
                "user", self.user, _USER, "must be numbers: a user like 1000, or user:group like 1000:1000"
            )
        checks.flag("read_only", self.read_only)
        rule = "must be a list of capabilities like NET_BIND_SERVICE, each once"
        for each in self.capabilities:
            checks.matching("capabilities", each, _CAPABILITY, rule)
        if len(set(self.capabilities)) != len(self.capabilities):
            raise InvalidRequest("capabilities", self.capabilities, rule)
        checks.whole("pids", self.pids, least=PIDS_LEAST, most=PIDS_MOST)
        checks.whole("tmp_mib", self.tmp_mib, least=1, most=TMP_MOST)
        for field in ("network", "runtime"):
            if getattr(self, field) != "":
                checks.matching(
                    field, getattr(self, field), _WORD, f"must be the name of a {field} of the engine"
                )

    @property
    def parts(self) -> Image:
        found = image_of(self.image)
        assert found is not None  # noqa: S101 — checked when it was made
        return found
