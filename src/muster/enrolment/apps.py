"""Enrol apps as nodes: a token proves that they may, a key says which one it is.

The same key is the same join: a lost reply is harmless, and the fresh token replaces the old one. Another
key is another node, never a duplicate. Makes and ends no machine.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from muster.domain import app as apps
from muster.domain import checks, deadlines
from muster.domain.access import hashed
from muster.domain.app import App
from muster.domain.deadlines import Limits
from muster.domain.errors import InvalidRequest
from muster.domain.health import Health
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import LIVE
from muster.domain.node import Node
from muster.domain.settings import Settings
from muster.domain.template import EXTERNAL, Template
from muster.enrolment.heartbeats import Heartbeats
from muster.ports.bundle import Ports

ADDRESS_MAX = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolled:
    node: Node
    token: str
    """Speaks for this node only."""


class AppEnrolment:
    def __init__(self, ports: Ports, settings: Settings, heartbeats: Heartbeats) -> None:
        self._ports = ports
        self._store = ports.store
        self._limits: Limits = settings.limits
        self._flush_every = settings.flush_every
        self._heartbeats = heartbeats

    async def enrol(self, app: App, *, template: str, actor: str = "") -> Enrolled:
        """Admit an app under a template. `actor` is whose token admits it.

        Raises CapReached, InvalidRequest, and NotFound for a template that is gone. Raises Lost or Removed if
        the key's node was given up before, by silence or by an operator.
        """
        await self._check_address(app.address)
        found = await self._store.template(template)
        found.spec.check_in_use()
        if not found.spec.enrols:
            rule = f"must have the provider {EXTERNAL}: nodes of {found.spec.provider} are made, not enrolled"
            raise InvalidRequest("template", template, rule)
        token = self._ports.ids.secret()
        node = await self._store.enrol(
            self._record(app, found),
            boot_id=app.boot_id,
            key_hash=hashed(app.key),
            token_hash=hashed(token),
            stale_after=apps.stale_after(app, flush_every=self._flush_every, limits=self._limits),
            now=self._ports.clock.now(),
            actor=actor,
        )
        if node.state not in LIVE:
            raise apps.turned_away(node)
        self._heartbeats.beat(node.id, said=None if node.up else Health.STARTING)
        await self._heartbeats.flush()
        return Enrolled(node=node, token=token)

    async def _check_address(self, address: str) -> None:
        """Check that the app's address is well-formed and may be probed."""
        if not address:
            return
        check_address(address)
        if self._ports.prober is not None:
            await self._ports.prober.check(address)

    def _record(self, app: App, template: Template) -> Node:
        ids = self._ports.ids
        return apps.enrolled(
            app,
            template,
            node_id=NodeId(ids.new("node")),
            machine_id=machine_id(template.name, app.key),
            assignment_id=AssignmentId(ids.new("as")),
            deadline=deadlines.resolve_boot(timeout=None, template=template.spec, limits=self._limits),
            now=self._ports.clock.now(),
        )


def machine_id(template: str, key: str) -> str:
    """Return the machine id of an app: the same for the same key and template. It doesn't reveal the key."""
    return f"app-{hashed(f'{template}/{key}')[:32]}"


def check_address(address: str) -> None:
    rule = "must be a URL like http://10.0.0.5:8000/health, without a user or a fragment"
    try:
        parts = urlsplit(checks.text("address", address, longest=ADDRESS_MAX))
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise InvalidRequest("address", address, rule) from None
    if not usable or parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidRequest("address", "…" if "@" in address else address, rule)
