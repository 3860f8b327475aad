"""An answer goes out in one piece, and its head doesn't wait for its body."""

import asyncio
from typing import cast

from muster.api.transport import JoiningTransport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class _Sent:
    """A transport that keeps what it is given, each send apart."""

    def __init__(self) -> None:
        self.sends: list[bytes] = []
        self.closed_after: int | None = None

    def write(self, data: bytes) -> None:
        self.sends.append(data)

    def close(self) -> None:
        self.closed_after = len(self.sends)

    def get_extra_info(self, name: str, default: object = None) -> object:
        known = {"socket": "a socket", "peername": ("::1", 5000, 0, 0), "sockname": ("::1", 80, 0, 0)}
        return known.get(name, default)

    def is_closing(self) -> bool:
        return self.closed_after is not None


def _transport() -> tuple[JoiningTransport, _Sent]:
    sent = _Sent()
    return JoiningTransport(cast("asyncio.Transport", sent), asyncio.get_running_loop()), sent


async def test_a_head_and_its_body_are_one_send() -> None:
    transport, sent = _transport()
    transport.write(HEAD)
    transport.write(b"{}")
    await asyncio.sleep(0)
    assert sent.sends == [HEAD + b"{}"]


async def test_a_head_whose_body_takes_longer_goes_ahead() -> None:
    transport, sent = _transport()
    transport.write(HEAD)
    await asyncio.sleep(0)
    assert sent.sends == [HEAD]
    transport.write(b"data: 1\n\n")
    assert sent.sends == [HEAD, b"data: 1\n\n"]


async def test_two_answers_in_a_row_keep_their_order() -> None:
    transport, sent = _transport()
    for part in (HEAD, b"{}", HEAD, b"[]"):
        transport.write(part)
    await asyncio.sleep(0)
    assert sent.sends == [HEAD + b"{}", HEAD + b"[]"]


async def test_closing_loses_nothing() -> None:
    transport, sent = _transport()
    transport.write(HEAD)
    transport.close()
    assert (sent.sends, sent.closed_after) == ([HEAD], 1)
    assert transport.is_closing()


async def test_addresses_come_without_a_socket_and_without_what_only_ipv6_has() -> None:
    transport, _ = _transport()
    assert transport.get_extra_info("peername") == ("::1", 5000)
    assert transport.get_extra_info("sockname") == ("::1", 80)
    assert transport.get_extra_info("socket") is None
    assert transport.get_extra_info("sslcontext", "none") == "none"
