"""Take heartbeats, the most frequent requests: a raw ASGI route in front of the others, with the same tokens.

Owns a small memory: which token speaks for which node, and the record's version. So most beats touch no
store. Every write of this process updates the memory (`saw`). It forgets a node that has ended or whose
token changed. Other replicas write too, so the memory asks the store again after a while. While the store
takes no writes, no beat is answered from memory: the node must go to another server.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TypedDict

from starlette.types import Receive, Scope, Send

from muster.api.access import bearer
from muster.api.connections import admitted
from muster.api.decoders import BodyReader
from muster.api.middleware import HEADERS, DefaultHeaders
from muster.api.problems import Unauthenticated, translate
from muster.domain import checks
from muster.domain.errors import Forbidden, InvalidRequest, MusterError
from muster.domain.events import Draft, Entity
from muster.domain.health import Health
from muster.domain.ids import NodeId
from muster.domain.lifecycle import ENDING
from muster.domain.template import EXTERNAL
from muster.enrolment.signals import Enrolment
from muster.ports.clock import Clock
from muster.wire.agent import Beat

PATH = "/api/v1/agent/beat"
REMEMBERED_MOST = 20_000
BODY_MOST = 4096
_READER = BodyReader(Beat)


@dataclass(slots=True)
class _Known:
    node_id: NodeId
    version: int
    since: float
    telling: bool
    """Whether the content of its beats matters: the node boots, or is a service."""


class Beats:
    """Answers beats. `remember`: seconds for which an answer may come from memory; 0: never."""

    def __init__(
        self, enrolment: Enrolment, clock: Clock, *, remember: float, unwritable: Callable[[], bool]
    ) -> None:
        self._enrolment = enrolment
        self._clock = clock
        self._remember = remember
        self._unwritable = unwritable
        self._known: dict[bytes, _Known] = {}
        self._tokens: dict[NodeId, bytes] = {}
        self._asking: dict[NodeId, int] = {}
        """Nodes that the store is being asked about, and how often they changed meanwhile."""
        self._replaced = 0
        """How often a token may have died. Whose it was is known only once the store has answered."""
        self.total = 0

    # --- what changes elsewhere -------------------------------------------------------------------

    def saw(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            if draft.entity is not Entity.NODE:
                continue
            node_id = NodeId(draft.entity_id)
            self._changed(node_id)
            key = self._tokens.get(node_id)
            if key is None:
                continue
            if draft.changes.get("state") in ENDING:
                self._drop(node_id)
            else:
                self._known[key].version = draft.version
                if "booted_at" in draft.changes:
                    self._drop(node_id)  # ask once more what matters of it

    def _changed(self, node_id: NodeId) -> None:
        if node_id in self._asking:
            self._asking[node_id] += 1

    def forget(self, node_id: NodeId) -> None:
        """Ask the store about the node's token again: it has a new one."""
        self._replaced += 1
        self._drop(node_id)

    def _drop(self, node_id: NodeId) -> None:
        self._changed(node_id)
        key = self._tokens.pop(node_id, None)
        if key is not None:
            self._known.pop(key, None)

    def forget_settled(self) -> None:
        """Ask the store about every token again: another replica may have replaced one."""
        self._replaced += 1
        self._known.clear()
        self._tokens.clear()

    # --- the route --------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = b'{"version":%d}' % await self._beat(authorization_of(scope["headers"]), receive)
        except Exception as error:
            problem = translate(error, method=scope["method"], path=PATH)
            await DefaultHeaders(problem.response())(scope, receive, send)
            return
        admitted(scope)
        await send({"type": "http.response.start", "status": 200, "headers": _headers(body)})
        await send({"type": "http.response.body", "body": body})

    def again(self, key: bytes, said: bytes) -> int | None:
        """Take the beat of a known token and return the record's version. None: the store must be asked.
        Raises what `_words` raises for a body that can't be read."""
        known = self._known.get(key)
        if known is None or self._unwritable():
            return None
        # A clock that was set back must not make an answer last.
        if not 0.0 <= self._clock.now() - known.since < self._remember:
            return None
        if known.telling:
            self._enrolment.heartbeats.beat(known.node_id, **_words(said))
        else:
            self._enrolment.heartbeats.beat(known.node_id)
        self.total += 1
        return known.version

    async def _beat(self, authorization: bytes, receive: Receive) -> int:
        key = sha256(authorization).digest()
        said = await _body(receive)
        version = self.again(key, said)
        return version if version is not None else await self._ask(key, authorization, said)

    async def _ask(self, key: bytes, authorization: bytes, said: bytes) -> int:
        now, replaced = self._clock.now(), self._replaced
        self.total += 1
        try:
            node_id = await self._enrolment.identify(bearer(authorization.decode("latin-1")))
        except Forbidden as error:
            raise Unauthenticated(str(error)) from error
        words = _words(said)
        changes = self._asking.setdefault(node_id, 0)
        try:
            node = await self._enrolment.beat(node_id, **words)
            unchanged = self._asking.get(node_id) == changes and self._replaced == replaced
        except MusterError:
            self._drop(node_id)
            raise
        finally:
            self._asking.pop(node_id, None)
        if unchanged:
            # Else what was read may be older than what was written, and would be believed for long.
            telling = not node.up or node.provider == EXTERNAL
            self._learn(key, node_id, node.version, now, telling=telling)
        return node.version

    def _learn(self, key: bytes, node_id: NodeId, version: int, now: float, *, telling: bool) -> None:
        if self._remember <= 0:
            return
        self._drop(node_id)
        if len(self._known) >= REMEMBERED_MOST:
            oldest = next(iter(self._known.values()))
            self._drop(oldest.node_id)
        self._known[key] = _Known(node_id, version, now, telling)
        self._tokens[node_id] = key


def authorization_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"authorization":
            return value
    return b""


class _Words(TypedDict):
    activity: int | None
    said: Health | None
    reason: str


async def _body(receive: Receive) -> bytes:
    """Read the body of a beat. Raises InvalidRequest if it is too long."""
    body = b""
    while True:
        message = await receive()
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > BODY_MOST:
            raise InvalidRequest("body", f"{len(body)} bytes", f"must be at most {BODY_MOST} bytes")
        if message["type"] != "http.request" or not message.get("more_body", False):
            return body


def _words(body: bytes) -> _Words:
    """Decode the body of a beat. An empty one is a beat too. Raises what `BodyReader.read` raises."""
    beat = _READER.read(body or b"{}")
    if beat.reason:
        checks.text("reason", beat.reason)
    return _Words(activity=beat.activity, said=beat.status, reason=beat.reason)


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *HEADERS]
