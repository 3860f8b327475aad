"""The composition root: the only place where a server's parts are named and put together.

Owns the order of things. Starting: the address, so that a start that can't succeed leaves nothing behind; the
data directory's lock, the store, earlier leases expired (if nobody else can have any), the control plane, the
API. Stopping: no new requests, the present ones finish, nothing is driven any more, leases are given back,
the store is closed. What must survive a kill is in the store; nothing here is needed for correctness.
"""

import asyncio
import hashlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import muster.agent
from muster.api import ApiSettings, create_app
from muster.api.app import Api
from muster.api.listening import CannotListen, Listening, bind, url_of
from muster.api.logs import configure
from muster.api.metrics import Metrics, Took, timed
from muster.api.repeating import repeating
from muster.config import Config, DataDirectory, default_data_directory
from muster.domain import deadlines
from muster.domain.errors import MusterError, StoreUnavailable
from muster.domain.settings import Settings
from muster.domain.template import Runtime, TemplateSpec
from muster.enrolment.proofs import Verifiers
from muster.operations.applying import TemplateDesk
from muster.plane import ControlPlane, Ports
from muster.ports.clock import Clock
from muster.ports.federation import Federation
from muster.ports.identity import IdentityVerifier
from muster.ports.provider import NodeProvider
from muster.ports.runtime import NodeRuntime
from muster.probes.http import HttpProber
from muster.providers.aks import AksSettings, deferred
from muster.providers.external import ExternalProvider
from muster.providers.process import Isolation, ProcessProvider, ProcessVerifier
from muster.runtimes.github import DOWNLOAD, Account, GitHub, RunnerPackage, federation
from muster.settling import Settling
from muster.stores.announcing import Written
from muster.stores.choosing import Opened, open_store
from muster.system import SystemClock, SystemIds, new_loop

logger = logging.getLogger(__name__)

OK, FAILED, USAGE = 0, 1, 2


NO_HOME = "none"
REMEMBER_BEATS = 30.0
REMEMBER_BEATS_ALONE = 3600.0
"""Nobody else writes to the store: every write of a node is seen here."""


class HomeDiffers(MusterError):
    """The replicas of a store don't agree on where process nodes are."""


class Stopped(MusterError):
    """The server ended although nobody asked it to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A server that listens, for whoever started it."""

    url: str
    data: DataDirectory
    stop: Callable[[], None]


Ready = Callable[[Serving], None]


def run(config: Config, *, ready: Ready = lambda _serving: None) -> int:
    """Serve until SIGTERM or SIGINT. Says in one sentence what went wrong, and gives the exit code."""
    configure(form=config.server.log_format, level=config.server.log_level)
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
) -> None:
    """`new_admin`: make another admin token, for whoever holds none of those that the store knows."""
    data = DataDirectory(config.server.data_dir or default_data_directory(os.environ))
    with _bound(config, data) as listener, data.held():
        parts = await _Parts.put_together(config, data, new_admin=new_admin)
        try:
            await parts.serve(listener, ready, signals=signals)
        finally:
            await parts.close()


def _bound(config: Config, data: DataDirectory) -> socket.socket:
    """Raises CannotListen, or DirectoryInUse if it is our own other server that has the port."""
    try:
        earlier = urlsplit(data.earlier_url() or "").port
    except ValueError:
        earlier = None
    try:
        return bind(config.server.host, config.server.port, earlier=earlier)
    except CannotListen:
        data.check_free()
        raise


def account_of(config: Config) -> Account:
    given = config.github
    return Account(
        url=given.url,
        api_url=given.api_url,
        issuer=given.issuer,
        token=given.token,
        token_file=given.token_file,
        app_id=given.app_id,
        private_key_file=given.private_key_file,
    )


def github_of(
    config: Config, clock: Clock, *, installation_id: str, took: Took = lambda _verb, _seconds, _error: None
) -> GitHub | None:
    """None: nothing is said about GitHub. Raises InvalidRequest for what can't be used."""
    given = config.github
    if not given.configured:
        return None
    package = RunnerPackage(
        path=given.runner_path,
        version=given.runner_version,
        sha256=given.runner_sha256,
        url=given.runner_url or DOWNLOAD,
    )
    return GitHub(
        account_of(config),
        package,
        clock,
        installation_id=installation_id,
        watched=lambda registry: timed(registry, took),
    )


Starting = Callable[[TemplateSpec], str]
"""The program that a node of a template starts with."""


def outfit(spec: TemplateSpec, starting: Starting | None, runtime: NodeRuntime | None) -> str:
    """A hash of all that comes to a node from this server until it has booted."""
    parts = [starting(spec) if starting else "", runtime.boot_script(spec) if runtime else ""]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16] if any(parts) else ""


class _Parts:
    def __init__(self, config: Config, data: DataDirectory) -> None:
        self._config = config
        self._data = data
        self._clock = SystemClock()
        self._ids = SystemIds()
        self._owner = self._ids.new("replica")
        self._metrics = Metrics(started_at=self._clock.now())
        aks = AksSettings(
            endpoint=config.aks.endpoint, credential=config.aks.credential, poll_every=config.aks.poll_every
        )
        self._azure = deferred(aks, os.environ)
        self._driven: asyncio.Task[None] | None = None
        self._api: Api | None = None
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
            keep=Settings().retention,
            saw=self._committed,
        )
        self.store = self._opened.store
        self.settling = Settling(
            self._config,
            self._data,
            store=self.store,
            access=self.store.access,
            clock=self._clock,
            ids=self._ids,
        )

    async def _agree(self) -> None:
        """A replica that looks for process nodes elsewhere would take them for gone, and they would leak."""
        home = NO_HOME if not self._config.process.capacity else self._home()
        agreed = await self.store.process_home(home)
        if agreed != home:
            where = "there are none (capacity = 0)" if agreed == NO_HOME else f"they are in {agreed}"
            raise HomeDiffers(
                "cannot serve: this replica and the others look for process nodes in different places"
                f" ({where}); give all of them the same [process] directory on one machine, or capacity = 0"
            )

    def _home(self) -> str:
        """A name of the directory that no other machine's has."""
        path = self._nodes / "home"
        try:
            self._nodes.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(f"{socket.gethostname()}:{self._nodes.absolute()} ({self._ids.new('home')})")
        except FileExistsError:
            pass
        except OSError as error:
            raise HomeDiffers(f"cannot use [process] directory {self._nodes}: {error.strerror}") from error
        return path.read_text(encoding="utf-8")

    async def close(self) -> None:
        await self._closing.aclose()
        await self._azure.close()
        await self._opened.close()

    def _committed(self, written: Sequence[Written]) -> None:
        if self._api is not None:
            self._api.saw(each.draft for each in written)

    # --- serving ----------------------------------------------------------------------------------

    async def serve(self, listener: socket.socket, ready: Ready, *, signals: bool) -> None:
        url = url_of(listener)
        plane, api = await self._compose(self._config.server.public_url or (url,))
        await self.settling.stock(plane.templates)
        server = Listening(api, repeating(api.context.beats))
        with ExitStack() as stack:
            if signals:
                stack.enter_context(self._signals(server, plane.templates))
            self._driven = asyncio.create_task(plane.run())
            self._driven.add_done_callback(lambda _done: server.stop())
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await server.listening()
                self._data.announce(url)
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
        installation = await self.store.installation()
        process = self._config.process
        provider = ProcessProvider(
            self._nodes,
            installation_id=installation.id,
            servers=urls,
            capacity=process.capacity,
            isolation=Isolation(process.isolation),
            hidden=(self._data.path,),
        )
        notice = (await provider.report()).notice
        if notice:
            logger.warning(notice, extra={"provider": provider.name})

        def took(verb: str, seconds: float, error: Exception | None) -> None:
            self._metrics.took(verb, seconds, error, now=self._clock.now())

        def called(name: str, *, github: bool = False) -> Took:
            def noted(verb: str, seconds: float, error: Exception | None) -> None:
                now = self._clock.now()
                self._metrics.telemetry.took(name, verb, seconds, error, now=now, github=github)

            return noted

        store = timed(self.store, took)
        apps = ExternalProvider(
            store,
            self._clock,
            installation_id=installation.id,
            lost_after=self._config.limits.lost_after,
        )
        providers: dict[str, NodeProvider] = {apps.name: apps}
        verifiers: dict[str, IdentityVerifier] = {}
        if process.capacity:
            providers[provider.name] = provider
            verifiers[provider.name] = ProcessVerifier(self._nodes, installation_id=installation.id)
        starting: dict[str, Starting] = {provider.name: lambda _spec: muster.agent.source()}
        await self._connect_ec2(urls, installation.id, providers, verifiers, starting)
        github = github_of(
            self._config,
            self._clock,
            installation_id=installation.id,
            took=called("github", github=True),
        )
        runtimes: dict[Runtime, NodeRuntime] = {}
        if github is not None:
            runtimes[Runtime.GITHUB] = github.runtime
            self._closing.push_async_callback(github.close)
        ports = Ports(
            store=store,
            commands=timed(self.store.commands, took),
            access=timed(self.store.access, took),
            overview=timed(self.store.overview, took),
            clusters=timed(self.store.clusters, took),
            clock=self._clock,
            ids=self._ids,
            wakeups=self._opened.wakeups,
            providers={
                name: self._metrics.telemetry.watched(each, self._clock) for name, each in providers.items()
            },
            cluster_providers={self._azure.name: timed(self._azure, called(self._azure.name))},
            verifier=Verifiers(verifiers),
            prober=HttpProber(allowed=self._config.probes.allowed, timeout=self._config.limits.probe_timeout),
            runtimes=runtimes,
            runners=github.registry if github else None,
            workflows=github.registry if github else None,
            federation=self._federation(urls),
            outfit=lambda spec: outfit(spec, starting.get(spec.provider), runtimes.get(spec.runtime)),
        )
        settings = Settings(limits=self._config.limits)
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
                trust=self._config.trust,
                driving=self._driving,
            ),
            metrics=self._metrics,
        )
        self._api = api
        return plane, api

    @property
    def _nodes(self) -> Path:
        return self._config.process.directory or self._data.nodes

    async def _connect_ec2(
        self,
        urls: Sequence[str],
        installation_id: str,
        providers: dict[str, NodeProvider],
        verifiers: dict[str, IdentityVerifier],
        starting: dict[str, Starting],
    ) -> None:
        ec2 = self._config.ec2
        if not ec2.region:
            return
        if not self._config.server.public_url and ec2.endpoint_url is None:
            logger.warning("machines on EC2 can't reach %s: set server.public_url", ", ".join(urls))
        from muster.providers.ec2 import Ec2Provider, Ec2Settings, Ec2Verifier  # noqa: PLC0415 — an extra

        settings = Ec2Settings(
            region=ec2.region,
            installation_id=installation_id,
            servers=tuple(sorted(urls)),  # what machines start with is the same whoever launches them
            dead_man=lambda spec: deadlines.first_dead_man(spec, self._config.limits),
            account=ec2.account,
            endpoint_url=ec2.endpoint_url,
            certificates=ec2.certificates,
            visibility_window=ec2.visibility_window,
        )
        provider = Ec2Provider(settings, self._clock, self._ids)
        self._closing.push_async_callback(provider.close)
        await provider.open()
        providers[provider.name] = provider
        starting[provider.name] = provider.starts_with
        verifiers[provider.name] = Ec2Verifier(settings, provider.aws, self._clock)

    def _federation(self, urls: Sequence[str]) -> Federation | None:
        if not self._config.trust:
            return None
        given = self._config.github.audience
        audiences = (given,) if given else tuple(each.rstrip("/") for each in urls)
        found = federation(account_of(self._config), self._clock, audiences=audiences)
        self._closing.push_async_callback(found.close)
        return found

    def _driving(self) -> bool:
        return self._driven is not None and not self._driven.done()

    @contextmanager
    def _signals(self, server: Listening, desk: TemplateDesk) -> Iterator[None]:
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
