"""The keys of the table and of its indexes: where each item lies. docs/stores.md has the table.

`listed`, `scoped` and `timed` are global indexes of keys alone: they say which items, never their content.
`told` is a local index, so that the events of one entity can be read consistently.
"""

from collections.abc import Callable
from zlib import crc32

from muster.domain.ids import CommandId, LaunchId, NodeId, OperationId
from muster.stores.dynamodb.values import Key

VERSION = 2
"""Of this layout: 2 since an event names the one before it."""
META: Key = ("META", "META")
WATCH: Key = ("WATCH", "WATCH")
COUNTERS = "COUNT"
DUTIES = "DUTY"
REPLICAS = "REPLICA"
POOLS = "POOL"
POOL_SAMPLES = "POOL_SAMPLES"
TEMPLATES = "TEMPLATE"
TOKENS = "TOKEN"
PAUSES = "PAUSE"
EVERYTHING = "*"
"""How a pause of everything is stored: no template has this name, and it sorts before all of them."""
ACKNOWLEDGED = "ACKNOWLEDGED"
DEVICES = "DEVICE"
UNDELIVERED = "UNDELIVERED"
COMMANDS = "COMMANDS"
DUE, GONE, OPEN, CLOSED = "DUE", "GONE", "OPEN", "CLOSED"
LEASED, ENDED, UNFINISHED, BOOTED = "LEASED", "ENDED", "UNFINISHED", "BOOTED"
OFFLINE, BOOTING = "OFFLINE", "BOOTING"
ENDING, FAILED, HANDED, CHANGES, WORK = "ENDING", "FAILED", "HANDED", "CHANGES", "WORK"
DELETED = "DELETED"
JOBS_UPDATED = "JOBS_UPDATED"
JOB_SOURCES = "JOB_SOURCES"
_DIGITS = 16
LAST_EVENT = "9" * _DIGITS
LAST = "~"
"""Sorts after every name that follows the same prefix."""


def _key(partition: str, sort: str) -> Callable[[str], Key]:
    """Return the function that makes a key of one name: `{}` in the partition stands for the name."""
    return lambda name: (partition.format(name), sort)


node = _key("NODE#{}", "NODE")
credentials = _key("NODE#{}", "CRED")
bundle = _key("NODE#{}", "BUNDLE")
node_token = _key("NTOKEN#{}", "NTOKEN")
operation = _key("OP#{}", "OP")
launch_token = _key("LTOKEN#{}", "LTOKEN")
idempotency = _key("KEY#{}", "KEY")
command = _key("CMD#{}", "CMD")
output_size = _key("OUT#{}", "SIZE")
failure = _key("FAILURE#{}", "FAILURE")
"""Of the failure of a node or of an operation."""
handover = _key("OP#{}", "HANDOVER")
cluster = _key("CLUSTER#{}", "CLUSTER")
cluster_token = _key("CLUSTER#{}", "TOKEN")
worked_on = _key("OP#{}", "CLUSTER")
"""Names the cluster that the operation works on."""
job = _key("JOB#{}", "JOB")
device_secret = _key("DEVICE#{}", "SECRET")
secret = _key("SECRET#{}", "SECRET")


def pause(template: str | None) -> Key:
    """Return the key of a template's pause; None: of the pause of everything."""
    return PAUSES, template or EVERYTHING


def pauses(template: str) -> tuple[Key, Key]:
    """Return the keys of the pauses that hold a template back."""
    return pause(template), pause(None)


def shard(name: str, shards: int) -> int:
    return crc32(name.encode()) % shards


def mark(node_id: str, version: int) -> Key:
    return f"NODE#{node_id}", f"MARK#{version:010d}"


def machine(provider: str, machine_id: str) -> Key:
    return f"MACHINE#{provider}#{machine_id}", "MACHINE"


def address(template: str, url: str) -> Key:
    return f"ADDRESS#{template}#{url}", "ADDRESS"


def seen(node_id: str, shards: int) -> Key:
    return f"SEEN#{shard(node_id, shards):04d}", node_id


def boot(template: str, revision: int, instance_type: str, booted_at: str) -> Key:
    return f"BOOT#{template}#{revision}", f"{instance_type}#{booted_at}"


def held(operation_id: OperationId, node_id: NodeId) -> Key:
    """Return the key of the item that says that the node is bound to the operation."""
    return f"OP#{operation_id}", f"NODE#{node_id}"


def launch(launch_id: LaunchId) -> Key:
    """Return the key of a launch, in the partition of its operation."""
    return f"OP#{launch_id.rpartition('.')[0]}", f"LAUNCH#{launch_id}"


def queue(template: str) -> str:
    return f"QUEUE#{template}"


def waiting(owner: str) -> str:
    """Return the key of an owner's count of queued operations."""
    return f"WAITING#{owner}"


def commanded(operation_id: OperationId, place: str) -> Key:
    return f"OP#{operation_id}", f"CMD#{place}"


def assigned(assignment_id: str, place: str) -> Key:
    """Return the key of an unfinished command of the assignment."""
    return f"ASSIGN#{assignment_id}", place


def output(command_id: CommandId, start: int) -> Key:
    return f"OUT#{command_id}", f"{start:012d}"


def template(name: str) -> Key:
    return TEMPLATES, name


def revision(name: str, number: int) -> Key:
    return f"TEMPLATE#{name}", f"{number:010d}"


def counter(scope: str) -> Key:
    return COUNTERS, scope


def cluster_name(name: str) -> Key:
    """Return the key of a cluster's name, ignoring case: the live cluster of that name, else the last."""
    return f"CNAME#{name.lower()}", "CNAME"


def job_source(source: str, queue: str) -> Key:
    return JOB_SOURCES, f"{source}#{queue}"


def feed(number: int) -> str:
    return f"FEED#{number:04d}"


def event(log: int, number: int) -> Key:
    """Return the key of an event, which sorts by its number."""
    return feed(log), digits(number)


def digits(number: int) -> str:
    return f"{number:0{_DIGITS}d}"


def head(number: int) -> Key:
    """Return the key of the head in its log's partition; it sorts after the numbers of events."""
    return feed(number), "HEAD"
