"""Cookies of the page's session, and the proof that a request with one comes from the page itself.

A browser sends cookies by itself, also for a form of another site. So a session counts only for a request
that the browser marks as the page's own: by `Sec-Fetch-Site` or `Origin`, which no script can set. A request
that changes something needs such a mark. A read is refused if a mark says that another site caused it.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.responses import Response

from muster.domain.errors import Forbidden

SAFE = ("GET", "HEAD")
_ANOTHER = "cannot use the session for a request of another site; open the page of this server and repeat it"


class Cookies:
    """Names and writes the cookies of a server that browsers reach at `home`."""

    def __init__(self, home: str) -> None:
        parts = urlsplit(home)
        self.origin = f"{parts.scheme}://{parts.netloc}".lower()
        self._secure = parts.scheme == "https"
        # A browser shares cookies between the ports of a host, so each server has its own names.
        self._form = "__Host-muster-{}" if self._secure else f"muster-{{}}-{parts.port or 80}"
        self.session = self._form.format("session")
        self.pending = self._form.format("sign-in")
        self.notice = self._form.format("notice")

    def write(self, response: Response, name: str, value: str, *, seconds: float) -> None:
        response.set_cookie(
            name, value, max_age=int(seconds), path="/", secure=self._secure, httponly=True, samesite="lax"
        )

    def drop(self, response: Response, name: str) -> None:
        self.write(response, name, "", seconds=0)

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Check that the page itself sends a request with a session. Raises Forbidden."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        own = ("same-origin", "none") if method in SAFE else ("same-origin",)
        foreign = (site is not None and site not in own) or (
            origin is not None and origin.lower() != self.origin
        )
        unmarked = site is None and origin is None and method not in SAFE
        if foreign or unmarked:
            raise Forbidden(_ANOTHER)
