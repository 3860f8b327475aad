"""The NodeProvider of this machine: answers from what is on disk and in the kernel, remembers nothing.

Owns the five verbs and the order of their steps; every one may be cut off at any point, in this process or by the
death of it, and the next look is right. Blocking work runs in threads, so a call that its caller gave up goes on
to its own deadline, as a cloud's would. Launches of one root happen one at a time.
"""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from muster.domain.errors import NotFound, Refused, Throttled, TokenSpent, Uncertain
from muster.domain.matching import type_matches
from muster.domain.plain import to_plain
from muster.domain.reasons import Reason
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState
from muster.providers.process import killing
from muster.providers.process.limits import NO_CGROUPS, Cgroups, find_cgroups
from muster.providers.process.pruning import Keeping, prune
from muster.providers.process.reporting import Report, report
from muster.providers.process.sandbox import Isolation, Sandbox, probe
from muster.providers.process.slots import Grant, Slot, Tree, sync
from muster.providers.process.spawning import KEEPER, Spawner, Steps, no_steps
