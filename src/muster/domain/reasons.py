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
    COMMAND_FAILED = "command_failed"
    IDLE_TIMEOUT = "idle_timeout"
    RELEASE_TIMEOUT = "release_timeout"
    HOLD_OVER = "hold_over"
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
"""Why a provider may have ended a machine without a request from Muster. The first one: unknown."""
BY_RULE = (Reason.REUSE, Reason.RETIRED)
"""Of nodes that were clean after their run, and are not used again."""
ADVICE: dict[Reason, str] = {
    Reason.CAPACITY: "allow more instance types or zones, fall back to on-demand, or try again later",
    Reason.QUOTA: "raise the account's quota or ask for fewer or smaller nodes",
    Reason.THROTTLED: "ask the provider for a higher request rate, or ask Muster for fewer nodes at once",
    Reason.CAP_REACHED: "raise max_nodes, release nodes, or set a queue timeout to wait for room",
    Reason.ABOVE_CAP: "ask for fewer nodes, or raise max_nodes; waiting does not help",
    Reason.SKU_UNAVAILABLE: "choose another size or region; `az vm list-skus` shows what a region offers",
    Reason.PERMISSION: "give the server's identity the role that is missing, on the scope that is named",
    Reason.NAME_TAKEN: "choose another name, or delete the resource that has it",
    Reason.REGION_MISMATCH: "choose the region of the existing resource, or another name",
    Reason.BOOT_TIMEOUT: "check the node's boot phases; raise provision_timeout if a healthy boot is slow",
    Reason.BOOT_STALLED: "check the phase in which the boot stopped: `muster nodes diagnosis NODE`",
    Reason.BOOT_SCRIPT_FAILED: "fix the boot script; its last output is in the node's diagnosis",
    Reason.ATTACH_FAILED: "read the node's log: it booted but could not get ready for the run",
    Reason.HEARTBEAT_LOST: "check the network between node and server, and the machine's load",
    Reason.MACHINE_GONE: "check for interruptions or a manual deletion at the provider",
    Reason.PROVIDER_REFUSED: "check the provider's credentials, permissions and the template's parameters",
    Reason.PROVIDER_ERROR: "try again, and check the provider's status page",
    Reason.DEADLINE_EXCEEDED: "raise the timeout, or see what it waited for: `muster operations why ID`",
    Reason.MAX_RUNTIME: "raise max_runtime, or give a run that needs longer more time with `muster extend`",
    Reason.COMMAND_FAILED: "read the commands' output: `muster logs RUN`",
    Reason.IDLE_TIMEOUT: "raise idle_timeout or min_idle to keep more nodes warm",
    Reason.RELEASE_TIMEOUT: "nothing to do: Muster terminates the node, because it was not proven clean",
    Reason.HOLD_OVER: "nothing to do: the node was kept for a look, and that time is over",
    Reason.PARTIAL_LAUNCH: "try again, or ask for fewer nodes; Muster terminated the machines that it got",
    Reason.RETIRED: "nothing to do: nodes of old revisions end; `muster apply` restores a retired template",
    Reason.REUSE: "nothing to do: the template's reuse rule ends the node after its run",
    Reason.DUPLICATE_JOIN: "look for a copied image or a leaked identity: two machines joined as one node",
    Reason.ORPHAN: "nothing to do: Muster terminates machines without a record",
    Reason.LEFT: "start the app again if it is needed",
    Reason.OPERATOR: "`muster events` names the operator who did it",
    Reason.CANCELLED: "ask again if it is still needed; `muster events` names who cancelled it",
    Reason.INTERRUPTED: "ask again; use on-demand machines if interruptions are too frequent",
    Reason.INTERNAL: "this is a bug in Muster: report it with the server's log lines of the error id",
}
