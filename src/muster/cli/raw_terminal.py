"""Put the local terminal into raw mode and back, whatever ends the program; read its size and its escapes."""

import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STDIN, STDOUT, STDERR = 0, 1, 2
_ENDING = (signal.SIGTERM, signal.SIGHUP)
RESET = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m"
"""Leaves what a program may have set and, cut off, did not take back: its screen, the mouse, the cursor."""
HELP = "~. leaves and ends the shell · ~~ sends ~ · ~? shows this; each at the start of a line"


def size() -> tuple[int, int]:
    """Return rows and columns of the terminal that the person looks at."""
    for fd in (STDOUT, STDIN, STDERR):
        with suppress(OSError):
            found = os.get_terminal_size(fd)
            if found.lines and found.columns:
                return min(found.lines, 1000), min(found.columns, 1000)
    return 24, 80


@contextmanager
def raw() -> Iterator[None]:
    """Pass every key on as it is, Ctrl-C too. SIGTERM and SIGHUP end the program through here."""
    if not os.isatty(STDIN):
        yield
        return
    before = termios.tcgetattr(STDIN)
    handlers = {number: signal.signal(number, _end) for number in _ENDING}
    try:
        tty.setraw(STDIN, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def leave_programs() -> None:
    """Undo what a remote program did to the screen, if it was cut off."""
    if os.isatty(STDOUT):
        with suppress(OSError):
            os.write(STDOUT, RESET)


class Escapes:
    """Finds `~.` and `~?` among what is typed: a tilde counts at the start of a line."""

    def __init__(self) -> None:
        self._at_start = True
        self._tilde = False
        self.left = False
        self.asked = False

    def passed(self, data: bytes) -> bytes:
        """Return what goes to the node. `left` and `asked` say what the person wants here."""
        out = bytearray()
        for each in data:
            if self._tilde:
                self._tilde = False
                if each == ord("."):
                    self.left = True
                    break
                if each == ord("?"):
                    self.asked = True
                    continue
                if each != ord("~"):
                    out += b"~"
            elif each == ord("~") and self._at_start:
                self._tilde = True
                continue
            out.append(each)
            self._at_start = each in b"\r\n"
        return bytes(out)
