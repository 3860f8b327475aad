"""Addresses, headers, timeouts, and the reading of answers. No I/O."""

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from muster.client.calls import Call, T
from muster.client.problems import (
    CannotReach,
    ServerProblem,
    Untrusted,
    UnusableAddress,
    UnusableCertificate,
    error_of_problem,
)
from muster.domain.backoff import backoff
from muster.domain.errors import Conflict, MusterError, NotYet, StoreUnavailable
from muster.wire.base import body_of

CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 35.0
"""Longer than the longest long poll."""
SILENCE_MOST = 45.0
"""A stream says something every 15 seconds: three missed signs of life mean that the connection is dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    url: str
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    """The certificate of the authority that signed the server's; None: those that this machine trusts."""
    tries: int = 4
    """How often a repeatable call is made before giving up."""
    trace: str = ""
    """The `traceparent` of the program that asks: what it asks for becomes a part of its trace."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            usable = httpx.URL(self.url).scheme in ("http", "https") and bool(parts.hostname)
            usable = usable and parts.port != 0
        except (httpx.InvalidURL, ValueError):
            usable = False
        if not usable or re.search(r"\s", self.url):
            raise UnusableAddress(self.url)

    def options(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if self.trace:
            headers["traceparent"] = self.trace
        return {
            "base_url": self.url,
            "headers": {**headers, "User-Agent": "muster"},
            "timeout": httpx.Timeout(ANSWER_WITHIN, connect=CONNECT_WITHIN),
            "follow_redirects": False,
            "trust_env": False,  # a proxy in the environment is not meant for a control plane on loopback
            **({} if (trusted := self.certificates()) is None else {"verify": trusted}),
        }

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Raise CannotReach or Untrusted for a connection that fails inside."""
        try:
            yield
        except httpx.TransportError as error:
            raise unreachable_error(self, error) from error

    def certificates(self) -> ssl.SSLContext | None:
        """Return whose certificates count; None: those that this machine trusts. Raises
        UnusableCertificate."""
        if self.ca_file is None:
            # To read those that the machine trusts takes a tenth of a short command. http:// needs none.
            plain = httpx.URL(self.url).scheme == "http"
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UnusableCertificate(str(self.ca_file), why) from error


STREAMING = httpx.Timeout(SILENCE_MOST, connect=CONNECT_WITHIN)
UPLOADING = httpx.Timeout(300.0, connect=CONNECT_WITHIN)


def request_of(call: Call[T]) -> dict[str, Any]:
    headers: dict[str, str] = {}
    made: dict[str, Any] = {
        "method": call.method,
        "url": call.path,
        "params": dict(call.params),
        "headers": headers,
    }
    if call.body is not None:
        made["content"], headers["Content-Type"] = body_of(call.body), "application/json"
    if call.key is not None:
        headers["Idempotency-Key"] = call.key
    return made


def content_of(response: httpx.Response) -> bytes:
    """Return the body of a success. Raises the server's refusal. The body must have been read."""
    refused = error_of_response(response)
    if refused is not None:
        raise refused
    return response.content


def error_of_response(response: httpx.Response) -> MusterError | None:
    """Return the server's refusal as an error, or None. The body must have been read."""
    if response.is_success:
        return None
    if response.is_redirect:
        return ServerProblem(
            response.status_code, "redirect", "cannot use the server: it redirects elsewhere"
        )
    return error_of_problem(response.status_code, response.content, _seconds(response))


def unreachable_error(target: Target, error: Exception) -> CannotReach | Untrusted:
    refused = _tls_error(error)
    if refused is not None:
        return Untrusted(target.url, refused)
    if isinstance(error, httpx.LocalProtocolError):
        # Its text quotes the header that can't be sent, and so the token.
        return CannotReach(target.url, "the request can't be written: check the token for odd characters")
    return CannotReach(target.url, str(error) or type(error).__name__)


def _tls_error(error: BaseException | None) -> str | None:
    """Return what is wrong with the server's certificate or its TLS; None: nothing is."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate can't be trusted: {error.verify_message.rstrip('.')}"
        if isinstance(error, ssl.SSLError):
            return f"it does not speak TLS as expected ({error.reason or 'unknown'}): check http or https"
        error = error.__cause__ or error.__context__
    return None


def pause(attempt: int) -> float:
    """Return the seconds before the next try."""
    return backoff(attempt, first=0.2, most=5.0)


def worth_repeating(error: MusterError, call: Call[T]) -> bool:
    passing = isinstance(error, CannotReach | StoreUnavailable | NotYet) or type(error) is Conflict
    return passing and call.repeatable


def _seconds(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 1.0
