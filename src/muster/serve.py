"""The composition root: the only place where a server's parts are named and put together.

This module owns the order of start and stop. A start first binds the address, so that a start that can't
succeed leaves nothing behind. Then it locks the data directory, opens the store and composes control plane
and API. Earlier leases are expired if no other replica can hold any. A stop takes no new requests and
finishes the present ones. Then it stops driving operations, gives leases back and closes the store. What must
survive a kill is in the store.
"""

import asyncio
import gc
import hashlib
import logging
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from muster.api import ApiSettings, create_app
from muster.api.app import Api
from muster.api.connections import bounded_protocol, raise_descriptors
from muster.api.logs import configure
from muster.api.metrics import Metrics, timed
from muster.api.server import CannotListen, HttpServer, bind, url_of
from muster.bootstrap import Bootstrap
from muster.config import Config, DataDirectory, default_data_directory
from muster.discovery import installed
from muster.domain.errors import MusterError, StoreUnavailable
from muster.domain.findings import Culprit
from muster.domain.settings import PRICED_LEASE, PRICED_RENEW_EVERY, Settings
from muster.domain.template import TemplateSpec
from muster.enrolment.joins import VerifierByProvider
from muster.installation_guard import guard
from muster.integration import NO_HOME, Parts, Site
from muster.operations.templates import TemplateDesk
from muster.plane import ControlPlane, Ports
from muster.ports.commits import Written
from muster.ports.runtime import NodeRuntime
from muster.ports.store import Store
from muster.ports.wakeups import ACCESS
from muster.probes.http import HttpProber
from muster.stores.cache import CachedAccess, CachedStore, follow_revocations
from muster.stores.factory import Opened, installation_of, open_store
from muster.system import SystemClock, SystemIds, new_loop

logger = logging.getLogger(__name__)

OK, FAILED, USAGE = 0, 1, 2


COLLECT_AFTER = (20_000, 20, 20)
"""Objects that a server makes before the garbage collector looks at them. A server of 10,000 nodes keeps a
million objects. With Python's default of 700 the collector took a fifth of its time."""
REMEMBER_BEATS = 30.0
REMEMBER_BEATS_ALONE = 3600.0
"""No other process writes to the store: this process sees every write of a node."""


class HomeDiffers(MusterError):
    """The replicas of a store don't agree on where process nodes are."""


class Stopped(MusterError):
    """The server ended without being asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A server that listens: its address and what its starter needs to know."""

    url: str
    data: DataDirectory
    stop: Callable[[], None]


Ready = Callable[[Serving], None]


def run(config: Config, *, ready: Ready = lambda _serving: None) -> int:
    """Serve until SIGTERM or SIGINT. Says in one sentence what went wrong, and gives the exit code."""
    configure(form=config.server.log_format, level=config.server.log_level)
    raise_descriptors()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(serve(config, ready=ready, signals=True))
    except MusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    return OK


async def serve(
    config: Config,
    *,
    ready: Ready = lambda _serving: None,
    signals: bool = False,
    new_admin: bool = False,
    new_installation: bool = False,
) -> None:
    """Run a server until it is stopped.

    `new_admin`: create another admin token. `new_installation`: continue although the database isn't the one
    of this data directory.
    """
    data = DataDirectory(config.server.data_dir or default_data_directory(os.environ))
    with _bound(config, data) as listener, data.held():
        if config.server.store is None:
            nodes = Counter[str]()
            for each in installed().integrations.values():
                nodes.update(each.running(data.nodes, config.tables))
            guard(data, installation_of(data.database), nodes, anew=new_installation)
        parts = await _Parts.put_together(config, data, new_admin=new_admin)
        try:
            await parts.serve(listener, ready, signals=signals)
        finally:
            await parts.close()


def _bound(config: Config, data: DataDirectory) -> socket.socket:
    """Bind the address. Raises CannotListen, or DirectoryInUse if another server of ours has the port."""
    try:
        earlier = urlsplit(data.earlier_url() or "").port
    except ValueError:
        earlier = None
    try:
        return bind(config.server.host, config.server.port, earlier=earlier)
    except CannotListen:
        data.check_free()
        raise


Starting = Callable[[TemplateSpec], str]
"""The program that a node of a template starts with."""


def outfit(spec: TemplateSpec, starting: Starting | None, runtime: NodeRuntime | None) -> str:
    """Return a hash of everything that a node gets from this server until it has booted."""
    parts = [starting(spec) if starting else "", runtime.boot_script(spec) if runtime else ""]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16] if any(parts) else ""


def _setups() -> dict[str, str]:
    """Return, by provider and runtime, how an operator sets it up."""
    every = installed().integrations.values()
    names = {each: (*each.providers, each.family, *each.runtimes) for each in every}
    usable = {name: each.setup for each, own in names.items() for name in own if name}
    return {**installed().broken, **usable}


def _local() -> frozenset[str]:
    every = installed().integrations.values()
    return frozenset(name for each in every if each.local for name in each.providers)


def _shared() -> frozenset[str]:
    every = installed().integrations.values()
    return frozenset(name for each in every if each.shared for name in each.providers)


class _Parts:
    def __init__(self, config: Config, data: DataDirectory) -> None:
        self._config = config
        self._data = data
        self._clock = SystemClock()
        self._ids = SystemIds()
        self._owner = self._ids.new("replica")
        self._metrics = Metrics(started_at=self._clock.now())
        self._driven: asyncio.Task[None] | None = None
        self._api: Api | None = None
        self._saw: list[Callable[[Sequence[Written]], None]] = []
        """What is kept in memory, and hears of each commit."""
        self._opened: Opened
        self._closing = AsyncExitStack()

    @classmethod
    async def put_together(cls, config: Config, data: DataDirectory, *, new_admin: bool) -> "_Parts":
        parts = cls(config, data)
        await parts._open()
        try:
            if parts._opened.shared:
                await parts._agree()
            else:
                data.keep_installation((await parts.store.installation()).id)
                await parts.store.expire_leases()
            await parts.settling.settle(new_admin=new_admin)
        except BaseException:
            await parts.close()
            raise
        return parts

    async def _open(self) -> None:
        server = self._config.server
        if server.store is None:
            self._data.keep_private()
        self._opened = await open_store(
            server.store,
            self._data.database,
            ids=self._ids,
            clock=self._clock,
            connections=server.store_connections,
            cache_mib=server.store_cache_mib,
            keep=Settings().retention,
            saw=self._committed,
        )
        self.store = self._opened.store
        self.settling = Bootstrap(
            self._config,
            self._data,
            store=self.store,
            access=self.store.access,
            clock=self._clock,
            ids=self._ids,
        )

    async def _agree(self) -> None:
        """Check that all replicas look for local nodes in the same place; else nodes would leak."""
        found = (
            each.home(self._data.nodes, self._config.tables, self._ids)
            for each in installed().integrations.values()
        )
        home = "; ".join(each for each in found if each is not None)
        agreed = await self.store.process_home(home)
        if agreed != home:
            where = "there are none (capacity = 0)" if agreed == NO_HOME else f"they are in {agreed}"
            raise HomeDiffers(
                "cannot serve: this replica and the others look for process nodes in different places"
                f" ({where}); give all of them the same [process] directory on one machine, or capacity = 0"
            )

    async def close(self) -> None:
        await self._closing.aclose()
        await self._opened.close()

    def _committed(self, written: Sequence[Written]) -> None:
        for saw in self._saw:
            saw(written)
        if self._api is not None:
            self._api.saw(written)

    # --- serving ----------------------------------------------------------------------------------

    async def serve(self, listener: socket.socket, ready: Ready, *, signals: bool) -> None:
        url = url_of(listener)
        plane, api = await self._compose(self._config.server.public_url or (url,))
        await self.settling.stock(plane.templates)
        http = bounded_protocol()
        server = HttpServer(api, http, backlog=http.limits.backlog)
        with ExitStack() as stack:
            if signals:
                stack.enter_context(self._signals(server, plane.templates))
            self._driven = asyncio.create_task(plane.run())
            self._driven.add_done_callback(lambda _done: server.stop())
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await server.wait_until_open()
                self._data.announce(url, self._config.path)
                self._say_where(url)
                ready(Serving(url=url, data=self._data, stop=server.stop))
                await serving
            finally:
                self._data.withdraw()
                await self._stop_driving(plane)

    def _say_where(self, url: str) -> None:
        if not self._config.server.loopback:
            logger.warning("listening beyond this machine without TLS: put a proxy that speaks it in front")
        logger.info("listening", extra={"url": url, "data_dir": str(self._data.path)})

    async def _stop_driving(self, plane: ControlPlane) -> None:
        if self._driven is None:
            return
        self._driven.cancel()
        (end,) = await asyncio.gather(self._driven, return_exceptions=True)
        try:
            await plane.enrolment.heartbeats.flush()
            if self._opened.shared:
                # Others go on with what we led at once, instead of when our leases run out.
                await self.store.expire_leases(self._owner)
        except StoreUnavailable as error:
            logger.warning("cannot write the last heartbeats, or give back leases: %s", error)
        if isinstance(end, Exception):
            logger.error("the control plane failed", exc_info=end)
            raise Stopped("cannot go on: the control plane failed; its trace is in the log") from end
        logger.info("stopped")

    async def _compose(self, urls: Sequence[str]) -> tuple[ControlPlane, Api]:
        def took(verb: str, seconds: float, error: Exception | None) -> None:
            self._metrics.took(verb, seconds, error, now=self._clock.now())

        alone, wakeups = not self._opened.shared, self._opened.wakeups
        cache = CachedStore(
            timed(self.store, took), self._clock, alone=alone, revoked=lambda: wakeups.notify(ACCESS)
        )
        access = CachedAccess(timed(self.store.access, took), self._clock, alone=alone)
        self._saw += [cache.saw, access.saw]
        store = cache.as_store()
        parts = await self._connect(urls, store)
        self._saw += [each for part in parts for each in part.observers]
        runtimes = {name: each for part in parts for name, each in part.runtimes.items()}
        starting = {name: each for part in parts for name, each in part.starts_with.items()}
        ports = Ports(
            store=store,
            commands=timed(self.store.commands, took),
            access=access.as_access(),
            overview=timed(self.store.overview, took),
            clusters=timed(self.store.clusters, took),
            jobs=timed(self.store.jobs, took),
            messages=timed(self.store.messages, took),
            clock=self._clock,
            ids=self._ids,
            wakeups=self._opened.wakeups,
            providers={
                each.name: self._metrics.telemetry.watched(
                    each,
                    self._clock,
                    culprit=Culprit.MACHINE if each.name in _local() else Culprit.CLOUD,
                )
                for part in parts
                for each in part.providers
            },
            endings=[each for part in parts for each in part.endings],
            unisolated={name: why for part in parts for name, why in part.unisolated.items()},
            local=_local(),
            advice={
                name: each.advice() for each in installed().integrations.values() for name in each.providers
            },
            lacks=[part.lacks for part in parts],
            request_parts=tuple(installed().request_tables.values()),
            template_parts=tuple(installed().template_tables.values()),
            setup=_setups(),
            cluster_providers={
                each.name: self._watched(each.name, each) for part in parts for each in part.cluster_providers
            },
            verifier=VerifierByProvider(
                {name: each for part in parts for name, each in part.verifiers.items()}
            ),
            prober=HttpProber(allowed=self._config.probes.allowed, timeout=self._config.limits.probe_timeout),
            runtimes=runtimes,
            duties=[part.duties for part in parts],
            standing=[part.standing for part in parts],
            outgoing=frozenset(name for part in parts for name in part.outgoing),
            hooks=[part.hooks for part in parts],
            federation=next((part.federation for part in parts if part.federation is not None), None),
            sign_in=next((part.sign_in for part in parts if part.sign_in is not None), None),
            outfit=lambda spec: outfit(spec, starting.get(spec.provider), runtimes.get(spec.runtime)),
        )
        settings = Settings(limits=self._config.limits, shells=self._config.shells)
        if not self._opened.shared:
            settings = replace(settings, absent_after=None)
        if self._opened.priced:
            settings = replace(settings, lease=PRICED_LEASE, renew_every=PRICED_RENEW_EVERY)
        plane = ControlPlane(
            ports,
            owner=self._owner,
            settings=settings,
            hosts=[host for each in urls if (host := urlsplit(each).hostname)],
        )
        api = create_app(
            plane,
            ports,
            ApiSettings(
                data=self._config.server.files_dir or self._data.path,
                settings=settings,
                remember_beats=REMEMBER_BEATS if self._opened.shared else REMEMBER_BEATS_ALONE,
                look_every=self._opened.look_every,
                readable_within=self._opened.readable_within,
                driving=self._driving,
            ),
            metrics=self._metrics,
        )
        self._api = api
        if not alone:
            following = asyncio.create_task(follow_revocations(wakeups, cache, access, api.context.beats))
            self._closing.callback(following.cancel)
        return plane, api

    async def _connect(self, urls: Sequence[str], store: Store) -> list[Parts]:
        """Return the adapters of every integration that is configured."""
        site = Site(
            tables=self._config.tables,
            limits=self._config.limits,
            installation_id=(await self.store.installation()).id,
            urls=urls,
            public=bool(self._config.server.public_url),
            nodes=self._data.nodes,
            shared=_shared(),
            hidden=(self._data.path, *self._config.private),
            store=store,
            clock=self._clock,
            ids=self._ids,
            environment=os.environ,
            watched=partial(self._watched, culprit=Culprit.RUNTIME),
        )
        for why in installed().broken.values():
            logger.error(why)
        connected: list[Parts] = []
        for integration in installed().integrations.values():
            connected.append(await integration.connect(site))
            self._closing.push_async_callback(connected[-1].close)
        return connected

    def _watched(self, name: str, port: Any, *, culprit: Culprit = Culprit.CLOUD) -> Any:
        def noted(verb: str, seconds: float, error: Exception | None) -> None:
            now = self._clock.now()
            self._metrics.telemetry.took(name, verb, seconds, error, now=now, culprit=culprit)

        return timed(port, noted)

    def _driving(self) -> bool:
        return self._driven is not None and not self._driven.done()

    @contextmanager
    def _signals(self, server: HttpServer, desk: TemplateDesk) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        reloads: set[asyncio.Task[None]] = set()

        def again() -> None:
            task = loop.create_task(self.settling.reload(desk))
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        loop.add_signal_handler(signal.SIGHUP, again)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)
