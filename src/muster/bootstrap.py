"""Give a new store what it needs first: a cap, an admin token, and the templates of the settings file.

The settings file counts at the first start and whenever it is read again. In between the store is the truth.
"""

import logging
import os
from dataclasses import replace

from muster.api.access import admins, mint, mint_first_admin
from muster.config import Config, DataDirectory, load
from muster.domain.access import Role, hashed
from muster.domain.errors import MusterError
from muster.domain.template import TemplateSpec
from muster.operations.templates import TemplateDesk
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.store import Store

logger = logging.getLogger(__name__)

BY_CONFIG, BY_SERVER = "the configuration file", "the server, at its first start"
BY_START = "the server, at its start"
"""Who did it, where no token did."""
DEFAULT = TemplateSpec(name="default", provider="process", resource_class="small")
"""What there is to provision before the first template is applied."""


class Bootstrap:
    def __init__(
        self,
        config: Config,
        data: DataDirectory,
        *,
        store: Store,
        access: AccessStore,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._config = config
        self._data = data
        self._store = store
        self._access = access
        self._clock = clock
        self._ids = ids

    async def settle(self, *, new_admin: bool) -> None:
        now = self._clock.now()
        if self._config.max_nodes is not None:
            await self._store.limit_installation(self._config.max_nodes, now=now, actor=BY_CONFIG)
        if new_admin:
            _, secret = await mint(
                self._access,
                ids=self._ids,
                name="another admin",
                role=Role.ADMIN,
                now=now,
                actor=BY_START,
            )
            self._keep(secret)
        elif not await self._is_admin(now):
            await self._become_admin(now)

    async def stock(self, desk: TemplateDesk) -> None:
        known = {template.name for template in await self._store.templates()}
        needed = not known and DEFAULT.provider in desk.providers
        first = self._config.templates or ((DEFAULT,) if needed else ())
        actor = BY_CONFIG if self._config.templates else BY_SERVER
        for spec in first:
            # What the store has was applied by a person: only `muster apply` and a reload change it.
            if spec.name not in known:
                await desk.apply(spec, actor=actor)
        for template in await desk.renew(actor=BY_START):
            words = "this server gives nodes another outfit than before: older ones are retired"
            logger.info(words, extra={"template": template.name, "revision": template.revision})

    async def _is_admin(self, now: float) -> bool:
        """Return whether the token in this data directory is an admin token of the store."""
        secret = self._data.admin_token()
        token = await self._access.token_for(hashed(secret)) if secret else None
        return token is not None and token.valid(now=now)

    async def _become_admin(self, now: float) -> None:
        """Make an admin token if the store has none.

        Of replicas that start together, one does so. The others say where to find the token.
        """
        secret = await mint_first_admin(self._access, ids=self._ids, now=now, actor=BY_SERVER)
        if secret is not None:
            self._keep(secret)
            return
        others = admins(await self._access.tokens(), now=now)
        words = (
            "no valid admin token in %s, and the store has others: copy admin.token from the data directory"
            " of the server that was started first, use one of your own, or make another with"
            " `muster serve --new-admin`"
        )
        logger.warning(words, self._data.path, extra={"admins": ", ".join(each.id for each in others[:3])})

    def _keep(self, secret: str) -> None:
        path = self._data.keep_admin_token(secret)
        logger.info("made an admin token", extra={"path": str(path)})

    async def reload(self, desk: TemplateDesk) -> None:
        """Read the file again and apply its templates and limits. The rest holds from the next start on."""
        try:
            fresh = load(self._config.path, environment=os.environ)
            for spec in fresh.templates:
                desk.check(spec)
        except MusterError as error:
            logger.error("cannot reload; everything stays as it was: %s", error)  # noqa: TRY400 — no bug, no trace
            return
        try:
            await self._apply(fresh, desk)
        except MusterError as error:
            logger.error("cannot reload all of the file, send the signal again: %s", error)  # noqa: TRY400 — as above

    async def _apply(self, fresh: Config, desk: TemplateDesk) -> None:
        if fresh.max_nodes is not None:
            await self._store.limit_installation(fresh.max_nodes, now=self._clock.now(), actor=BY_CONFIG)
        known = {template.name: template.spec for template in await self._store.templates()}
        for spec in fresh.templates:
            if spec.name in known and _retired_as_it_is(known[spec.name], spec):
                continue
            template = await desk.apply(spec, actor=BY_CONFIG)
            logger.info("applied", extra={"template": template.name, "revision": template.revision})


def _retired_as_it_is(stored: TemplateSpec, written: TemplateSpec) -> bool:
    """Return whether an operator retired a template that the file still has unchanged.

    Only `muster apply`, or another content, brings it back.
    """
    as_written = replace(stored, retired=False, min_idle=written.min_idle, outfit=written.outfit)
    return stored.retired and as_written == written
