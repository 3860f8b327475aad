"""One request to GitHub and what its answer means. Owns the translation of GitHub's refusals; no state.

Primary and secondary rate limits look alike (403 or 429); both say, in one header or another, when to come
back. Whatever GitHub says in words is kept, in one line.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from muster.domain.errors import ProviderError, Refused, Throttled, Uncertain
from muster.domain.reasons import Reason

VERSION = "2022-11-28"
WORDS_MOST = 300
PAUSE = 60.0
"""What GitHub asks for where it names no time of its own."""
PAUSE_MOST = 3600.0
_LIMITED = (403, 429)
_ADVICE = {
    401: "the credentials are wrong, revoked or expired",
    403: "the credentials lack the right to do this",
    404: "it does not exist, or the credentials may not see it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    data: Any
    """JSON, as it came; None: no body."""
    headers: Mapping[str, str]


async def ask(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    authorization: str,
    body: Mapping[str, Any] | None = None,
    etag: str | None = None,
) -> Answer:
    """Make a request. Raises Uncertain if there is no readable answer. The caller judges the answer."""
    headers = {
        "Authorization": authorization,
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": VERSION,
    }
    if etag is not None:
        headers["If-None-Match"] = etag
    try:
        answer = await http.request(method, url, headers=headers, json=body)
        data = answer.json() if answer.content else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Uncertain(f"cannot reach GitHub ({method} {httpx.URL(url).path}): {_named(error)}") from error
    return Answer(status=answer.status_code, data=data, headers=answer.headers)


def unreadable(what: str) -> ProviderError:
    """Return the error for a success whose body isn't what it should be."""
    return Uncertain(f"cannot {what}: GitHub's answer can't be read")


def problem(answer: Answer, what: str, *, now: float) -> ProviderError:
    """Return the error for an answer that is no success. `what` could not be done."""
    said = _said(answer)
    if answer.status in _LIMITED:
        pause = pause_of(answer, now=now)
        if pause is not None:
            return Throttled(f"cannot {what}: GitHub limits the rate of requests ({said})", pause)
    if answer.status >= 500:  # noqa: PLR2004 — the server's own failures
        return Uncertain(f"cannot {what}: GitHub fails with {answer.status} ({said})")
    why = _ADVICE.get(answer.status)
    advice = f"; {why}" if why else ""
    return Refused(
        f"cannot {what}: GitHub refuses with {answer.status} ({said}){advice}", Reason.PROVIDER_REFUSED
    )


def pause_of(answer: Answer, *, now: float) -> float | None:
    """Return the seconds until requests are welcome again, or None if the rate is not the reason."""
    after = answer.headers.get("retry-after", "")
    if after.isdigit():
        return min(float(after), PAUSE_MOST)
    if answer.headers.get("x-ratelimit-remaining") == "0":
        reset = answer.headers.get("x-ratelimit-reset", "")
        pause = float(reset) - now if reset.isdigit() else PAUSE
        return min(max(pause, 1.0), PAUSE_MOST)
    if answer.status == 429 or "rate limit" in _said(answer).lower():  # noqa: PLR2004 — too many requests
        return PAUSE
    return None


def _said(answer: Answer) -> str:
    message = answer.data.get("message") if isinstance(answer.data, dict) else None
    words = " ".join(str(message).split()) if message else "no words"
    return words[:WORDS_MOST]


def _named(error: Exception) -> str:
    return " ".join(str(error).split())[:WORDS_MOST] or type(error).__name__
