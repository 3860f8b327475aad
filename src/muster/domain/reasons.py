"""Why something failed or ended: one enum for nodes, launches and operations, with advice for people."""

from enum import StrEnum


class Reason(StrEnum):
    CAPACITY = "capacity"
    QUOTA = "quota"
    THROTTLED = "throttled"
    CAP_REACHED = "cap_reached"
    ABOVE_CAP = "above_cap"
    SKU_UNAVAILABLE = "sku_unavailable"
    PERMISSION = "permission"
    NAME_TAKEN = "name_taken"
    REGION_MISMATCH = "region_mismatch"
    BOOT_TIMEOUT = "boot_timeout"
    BOOT_STALLED = "boot_stalled"
    BOOT_SCRIPT_FAILED = "boot_script_failed"
    ATTACH_FAILED = "attach_failed"
    HEARTBEAT_LOST = "heartbeat_lost"
    MACHINE_GONE = "machine_gone"
    PROVIDER_REFUSED = "provider_refused"
    PROVIDER_ERROR = "provider_error"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    MAX_RUNTIME = "max_runtime"
    IDLE_TIMEOUT = "idle_timeout"
    RELEASE_TIMEOUT = "release_timeout"
    PARTIAL_LAUNCH = "partial_launch"
    RETIRED = "retired"
    REUSE = "reuse"
    DUPLICATE_JOIN = "duplicate_join"
    ORPHAN = "orphan"
    LEFT = "left"
    OPERATOR = "operator"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    INTERNAL = "internal"


ENDINGS = (
    Reason.MACHINE_GONE,
    Reason.INTERRUPTED,
    Reason.CAPACITY,
    Reason.QUOTA,
    Reason.PROVIDER_REFUSED,
    Reason.PROVIDER_ERROR,
)
"""Why a provider may have ended a machine that nobody gave back; the first, if nobody can say."""
BY_RULE = (Reason.REUSE, Reason.RETIRED)
"""Of nodes that came back in good order, and aren't used again."""
ADVICE: dict[Reason, str] = {
    Reason.CAPACITY: "allow more instance types or zones, fall back to on-demand, or try again later",
    Reason.QUOTA: "raise the account's quota or ask for fewer or smaller nodes",
    Reason.THROTTLED: "the provider slows our requests down; ask it for a higher rate, or for less at once",
    Reason.CAP_REACHED: "raise max_nodes, release something, or set a queue timeout to wait for room",
    Reason.ABOVE_CAP: "ask for fewer nodes, or raise max_nodes; waiting would not help",
    Reason.SKU_UNAVAILABLE: "choose another size or region; `az vm list-skus` shows what a region offers",
    Reason.PERMISSION: "give the server's identity the role that is missing, on the scope that is named",
    Reason.NAME_TAKEN: "choose another name, or delete what has it",
    Reason.REGION_MISMATCH: "choose the region in which the resource is, or another name",
    Reason.BOOT_TIMEOUT: "look at the node's boot phases; raise provision_timeout if a healthy boot is slow",
    Reason.BOOT_STALLED: "look at the phase in which the boot stood still",
    Reason.BOOT_SCRIPT_FAILED: "fix the boot script; its last output is in the node's diagnosis",
    Reason.ATTACH_FAILED: "look at the node's log: it booted but could not get ready for the run",
    Reason.HEARTBEAT_LOST: "check the network between node and server, and the machine's load",
    Reason.MACHINE_GONE: "the machine disappeared: check for interruptions or manual deletion",
    Reason.PROVIDER_REFUSED: "check the provider's credentials, permissions and the template's parameters",
    Reason.PROVIDER_ERROR: "the provider failed; try again, and check its status page",
    Reason.DEADLINE_EXCEEDED: "raise the timeout, or look at what it waited for",
    Reason.MAX_RUNTIME: "raise max_runtime, or give a run that needs longer more time with `muster extend`",
    Reason.IDLE_TIMEOUT: "nobody needed the node; raise idle_timeout or min_idle to keep more nodes warm",
    Reason.RELEASE_TIMEOUT: "the node did not prove that it was clean in time, so it was thrown away",
    Reason.PARTIAL_LAUNCH: "the provider gave fewer machines than asked for; all were given back",
    Reason.RETIRED: "the template changed or was retired, so its older nodes go; `muster apply` renews it",
    Reason.REUSE: "the template's reuse rule doesn't allow this node to serve again",
    Reason.DUPLICATE_JOIN: "two machines claimed to be one node; look for a copied image or leaked identity",
    Reason.ORPHAN: "a machine without a record was found and given back",
    Reason.LEFT: "the app ended by itself; start it again if it is needed",
    Reason.OPERATOR: "somebody asked for it",
    Reason.CANCELLED: "somebody cancelled it",
    Reason.INTERRUPTED: "the provider took the machine back",
    Reason.INTERNAL: "this is a bug in Muster; please report it with the operation's events",
}


LOCAL_ADVICE: dict[Reason, str] = {
    Reason.CAPACITY: "ask for fewer nodes, release some, or raise capacity under [process]"
    " (MUSTER_PROCESS_CAPACITY)",
}
"""Where machines are processes of this one: what helps in a cloud doesn't help here."""
