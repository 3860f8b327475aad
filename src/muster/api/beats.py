"""Heartbeats: the hot path. A raw ASGI route in front of the framework, behind the same tokens.

Owns a small memory of which token speaks for which node and of the record's version, so that most beats touch
no store. It is told of every write of this process (`saw`), forgets a node whose time is over or whose token
changed, and asks the store again after a while in any case, because other replicas write too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from starlette.types import Receive, Scope, Send

from muster.api.access import bearer
from muster.api.problems import Unauthenticated, translate
from muster.domain.errors import Forbidden, MusterError
from muster.domain.events import Draft, Entity
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.enrolment.enroller import Enrolment
from muster.ports.clock import Clock

PATH = "/api/v1/agent/beat"
REMEMBERED_MOST = 20_000
BODY_MOST = 4096
_OVER = (NodeState.TERMINATING.value, NodeState.TERMINATED.value)


@dataclass(slots=True)
class _Known:
    node_id: NodeId
    version: int
    until: float


class Beats:
    """`remember`: seconds for which an answer may come from memory; 0: never."""

    def __init__(self, enrolment: Enrolment, clock: Clock, *, remember: float) -> None:
        self._enrolment = enrolment
        self._clock = clock
        self._remember = remember
        self._known: dict[bytes, _Known] = {}
        self._tokens: dict[NodeId, bytes] = {}
        self.total = 0

    # --- what changes elsewhere -------------------------------------------------------------------

    def saw(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            if draft.entity is not Entity.NODE:
                continue
            node_id = NodeId(draft.entity_id)
            key = self._tokens.get(node_id)
            if key is None:
                continue
            if draft.changes.get("state") in _OVER:
                self.forget(node_id)
            else:
                self._known[key].version = draft.version

    def forget(self, node_id: NodeId) -> None:
        key = self._tokens.pop(node_id, None)
        if key is not None:
            self._known.pop(key, None)

    # --- the route --------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = b'{"version":%d}' % await self._beat(_authorization(scope))
        except Exception as error:
            problem = translate(error, method=scope["method"], path=PATH)
            await _drain(receive)
            await problem.response()(scope, receive, send)
            return
        await _drain(receive)
        await send({"type": "http.response.start", "status": 200, "headers": _headers(body)})
        await send({"type": "http.response.body", "body": body})

    async def _beat(self, authorization: bytes) -> int:
        key = sha256(authorization).digest()
        now = self._clock.now()
        known = self._known.get(key)
        self.total += 1
        if known is not None and now < known.until:
            self._enrolment.heartbeats.beat(known.node_id)
            return known.version
        return await self._ask(key, authorization, now)

    async def _ask(self, key: bytes, authorization: bytes, now: float) -> int:
        try:
            node_id = await self._enrolment.identify(bearer(authorization.decode("latin-1")))
        except Forbidden as error:
            raise Unauthenticated(str(error)) from error
        try:
            version = await self._enrolment.beat(node_id)
        except MusterError:
            self.forget(node_id)
            raise
        self._learn(key, node_id, version, now)
        return version

    def _learn(self, key: bytes, node_id: NodeId, version: int, now: float) -> None:
        if self._remember <= 0:
            return
        self.forget(node_id)
        if len(self._known) >= REMEMBERED_MOST:
            oldest = next(iter(self._known.values()))
            self.forget(oldest.node_id)
        self._known[key] = _Known(node_id, version, now + self._remember)
        self._tokens[node_id] = key


def _authorization(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"authorization":
            assert isinstance(value, bytes)  # noqa: S101 — ASGI says so
            return value
    return b""


async def _drain(receive: Receive) -> None:
    """What a beat says beside itself is not needed to keep it alive; read past it, within reason."""
    size = 0
    while size <= BODY_MOST:
        message = await receive()
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
