"""Give the agent of a guest its secret, once the machine has one. This program runs inside the guest.

Usage: guest_identity.py <&FIRMWARE_FILE >PIPE_TO_THE_AGENT 2>CONSOLE

A machine that boots has its identity from the start. A machine of which a snapshot is taken has none yet, so
this program waits. Each copy of the snapshot finds an identity of its own in the same firmware file. A copy
also shares memory with all other copies. So before the agent learns its secret, this program gives the kernel
new entropy, sets the clock and changes the MAC address.

Any Python from 3.8 on runs it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import termios
import time
from typing import Any

SIZE = 1024
"""Bytes of the firmware file. The guest's kernel learns the size once, so all copies need the same."""
EVERY = 0.02
AGAIN = 50
"""Rounds after which it says again that it is ready: a kernel's message may have cut the words apart."""
READY = "muster: ready for a snapshot"
RESTORED = "muster: restored from a snapshot as"
RNDADDENTROPY, RNDRESEEDCRNG, SIOCSIFHWADDR = 0x40085203, 0x5207, 0x8924
ETHERNET = 1
NETWORK = "/sys/class/net"


def say(words: str) -> None:
    os.write(2, (words + "\n").encode())


def read() -> dict[str, Any]:
    """Return the firmware file. A snapshot may fall into the middle of a read, so two must agree."""
    first, second = b"", os.pread(0, SIZE, 0)
    while first != second:
        first, second = second, os.pread(0, SIZE, 0)
    content: dict[str, Any] = json.loads(second)
    return content


def wait_for_reader() -> None:
    """Wait until the agent reads its pipe: then it has loaded all of its code. It ignores the newline."""
    os.write(1, b"\n")
    unread = b"\1"
    while any(unread):
        time.sleep(EVERY)
        unread = fcntl.ioctl(1, termios.FIONREAD, bytes(4))


def wait_for_identity(before: dict[str, Any]) -> dict[str, Any]:
    rounds = 0
    while True:
        if rounds % AGAIN == 0:
            say(READY)
        now = read()
        if now != before:
            return now
        time.sleep(EVERY)
        rounds += 1


def stir(entropy: bytes) -> None:
    """Give the kernel new entropy, and let its generator use it at once."""
    with open("/dev/urandom", "wb", buffering=0) as pool:
        fcntl.ioctl(pool, RNDADDENTROPY, struct.pack("ii", 8 * len(entropy), len(entropy)) + entropy)
        fcntl.ioctl(pool, RNDRESEEDCRNG)


def rename_card(old: str, new: str) -> None:
    for name in sorted(os.listdir(NETWORK)):
        with open(os.path.join(NETWORK, name, "address")) as file:
            if file.read().strip() != old:
                continue
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            address = bytes.fromhex(new.replace(":", ""))
            request = struct.pack("16sH6s8x", name.encode(), ETHERNET, address)
            fcntl.ioctl(control, SIOCSIFHWADDR, request)


def main() -> None:
    identity = before = read()
    if "secret" not in identity:
        wait_for_reader()
        identity = wait_for_identity(before)
        stir(bytes.fromhex(identity["entropy"]))
        time.clock_settime(time.CLOCK_REALTIME, identity["time"])
        rename_card(before["mac"], identity["mac"])
        say(RESTORED + " " + identity["machine"])
    while "secret" not in identity:
        time.sleep(EVERY)  # this copy only shows that the snapshot works
    os.write(1, identity["secret"].encode())


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        say("muster: cannot take an identity: " + repr(error))
        sys.exit(1)
