"""The fake over HTTP: EC2, STS and Service Quotas on one port, and the metadata service beside them.

Runs in a thread with a loop of its own, so that a test, a demo or a benchmark can drive it from anywhere.
"""

import asyncio
import json
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

from fakes.ec2 import query_protocol
from fakes.ec2.cloud import ACCOUNT, Cloud, Instance, Region, machine_in
from fakes.ec2.faults import Fault, Faults
from fakes.ec2.machines import Machine, sandbox_works
from fakes.ec2.query_protocol import ApiError
from fakes.ec2.signing import Signer

T = TypeVar("T")
TOKEN = "x-aws-ec2-metadata-token"
_XML = "text/xml;charset=UTF-8"
_JSON = "application/x-amz-json-1.1"


class FakeEc2:
    def __init__(
        self, *, boots: bool = True, signer: Signer | None = None, region: Region | None = None
    ) -> None:
        """Set up the server. `boots`: whether instances are processes, or records only."""
        self.faults = Faults()
        self.signer = signer or Signer()
        self.region = region or Region()
        self.calls: list[tuple[float, str]] = []
        """Every call to the API: when, and which action."""
        self.busy = 0.0
        """Seconds that answering them took."""
        self.sandboxed = boots and sandbox_works()
        self._root = Path(tempfile.mkdtemp(prefix="fake-ec2-"))
        self._boots = boots
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._released = asyncio.Event()
        self._tokens: dict[str, str] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self.port = 0

    # --- life -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._now(self._listen())
        build = None
        if self._boots:
            build = machine_in(self._root, metadata=f"{self.url}/imds", sandboxed=self.sandboxed)
        self.cloud = Cloud(
            self.region, self.faults, self.signer, later=self._later, build=self._watched(build)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._now(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        for task in list(self._answering):
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)
        for instance in self.cloud.instances.values():
            if instance.machine is not None:
                self._loop.remove_reader(instance.machine.power)
                instance.machine.remove()

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._loop.call_later(seconds, act)

    def _watched(self, build: Callable[[str], Machine] | None) -> Callable[[str], Machine] | None:
        if build is None:
            return None

        def built(name: str) -> Machine:
            machine = build(name)

            def off() -> None:
                self._loop.remove_reader(machine.power)
                self.cloud.powered_off(self.cloud.instances[name])

            self._loop.add_reader(machine.power, off)
            return machine

        return built

    def renew(self) -> None:
        """Drop all faults and recorded calls; what exists stays."""
        self.faults = self.cloud.faults = Faults()
        self.calls.clear()
        self._loop.call_soon_threadsafe(self._released.clear)

    # --- for tests ---------------------------------------------------------------------------------

    def instances(self, *, there: bool = True) -> list[Instance]:
        return self.do(lambda: [each for each in self.cloud.instances.values() if each.there or not there])

    def interrupt(self, instance_id: str, seconds: float = 120.0) -> None:
        """Say that a spot instance is taken back, and take it back then."""
        self.do(lambda: self.cloud.interrupt(self.cloud.instances[instance_id], seconds))

    def take_back(self, instance_id: str) -> None:
        """Take a spot instance back at once."""
        self.do(lambda: self.cloud.take_back(self.cloud.instances[instance_id]))

    def kill(self, instance_id: str) -> None:
        """Kill an instance, as dying hardware does."""
        self.do(lambda: self.cloud.gone(self.cloud.instances[instance_id]))

    def write(self, instance_id: str, text: str) -> None:
        machine = self.cloud.instances[instance_id].machine
        assert machine is not None
        machine.write(text)

    def let_go(self) -> None:
        """Answer what was held back."""
        self._loop.call_soon_threadsafe(self._released.set)

    def counted(self, action: str, *, since: float = 0.0) -> int:
        return sum(1 for at, each in list(self.calls) if each == action and at >= since)

    def do(self, act: Callable[[], T]) -> T:
        async def acting() -> T:
            return act()

        return self._now(acting())

    def _now(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30.0)

    # --- HTTP -------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side went away, or we do
        finally:
            self._answering.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
        if path.startswith("/imds/"):
            status, kind, answer = self._metadata(method, path, headers)
        else:
            found = await self._api(headers, body)
            if found is None:
                writer.transport.abort()
                return False
            status, kind, answer = found
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(answer)}\r\n\r\n".encode()
            + answer
        )
        await writer.drain()
        return True

    async def _api(self, headers: dict[str, str], body: str) -> tuple[int, str, bytes] | None:
        """Answer a call of the API. None: it is done, and its answer is lost."""
        target = headers.get("x-amz-target", "")
        if target.startswith("ServiceQuotas"):
            return self._quota(json.loads(body))
        action, pairs = query_protocol.action_of(body)
        self.calls.append((time.monotonic(), action))
        fault = self.faults.take(action)
        if fault.page is not None:
            return fault.page
        if action == "GetCallerIdentity":
            return 200, _XML, _caller()
        started = time.perf_counter()
        try:
            if fault.error is not None:
                raise fault.error
            answer = query_protocol.answer(
                action, self.cloud.do(action, query_protocol.parameters(action, pairs))
            )
        except ApiError as error:
            return error.status, _XML, query_protocol.problem(error)
        finally:
            self.busy += time.perf_counter() - started
        return await self._after(fault, answer)

    async def _after(self, fault: Fault, answer: bytes) -> tuple[int, str, bytes] | None:
        if fault.held:
            await self._released.wait()
        return None if fault.lost else (200, _XML, answer)

    def _quota(self, asked: dict[str, str]) -> tuple[int, str, bytes]:
        value = self.faults.quotas.get(asked["QuotaCode"], 640.0)
        return 200, _JSON, json.dumps({"Quota": {"QuotaCode": asked["QuotaCode"], "Value": value}}).encode()

    def _metadata(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
        _, _, name, wanted = path.split("/", 3)
        instance = self.cloud.instances.get(name)
        if instance is None:
            return 404, "text/plain", b""
        if method == "PUT" and wanted == "latest/api/token" and f"{TOKEN}-ttl-seconds" in headers:
            token = secrets.token_urlsafe(16)
            self._tokens[token] = name
            return 200, "text/plain", token.encode()
        if self._tokens.get(headers.get(TOKEN, "")) != name:
            return 401, "text/plain", b""
        found = self.cloud.metadata(instance, wanted.removeprefix("latest/"))
        return (404, "text/plain", b"") if found is None else (200, "text/plain", found)


def _caller() -> bytes:
    inner = (
        f"<Arn>arn:aws:iam::{ACCOUNT}:user/fake</Arn><UserId>AIDAFAKE</UserId><Account>{ACCOUNT}</Account>"
    )
    namespace = "https://sts.amazonaws.com/doc/2011-06-15/"
    return (
        f'<GetCallerIdentityResponse xmlns="{namespace}"><GetCallerIdentityResult>{inner}'
        "</GetCallerIdentityResult></GetCallerIdentityResponse>"
    ).encode()
