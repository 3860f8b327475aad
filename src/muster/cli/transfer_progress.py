"""Show how far a transfer is, on one line of a terminal; elsewhere nothing."""

import sys
import time
from types import TracebackType
from typing import Self

_EVERY = 0.2
_MIB = 1 << 20


class TransferProgress:
    def __init__(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._next = time.monotonic() + 1.0  # what is quick needs no word
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, size: int) -> None:
        self._done += size
        if time.monotonic() < self._next or not sys.stderr.isatty():
            return
        self._next, self._shown = time.monotonic() + _EVERY, True
        of = f" of {self._total / _MIB:.1f}" if self._total else ""
        sys.stderr.write(f"\r\x1b[K{self._what} {self._done / _MIB:.1f}{of} MiB")
        sys.stderr.flush()
