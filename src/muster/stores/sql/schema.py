"""The schema and its history: numbered, forward-only, each applied in a transaction of its own. A new store
gets them all in one.

A migration that was released is never edited: a new one follows it. Columns of a record are named like the
fields of its dataclass (a test holds them together). Times are seconds, flags 0 or 1, nested values JSON.
There are no foreign keys: prune removes in the right order, and other engines of this port have none either.
"""

from dataclasses import dataclass

from muster.domain.errors import StoreUnavailable
from muster.stores.sql.tx import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    version: int
    name: str
    statements: tuple[str, ...]


_INITIAL = (
    """
    CREATE TABLE installation (
        id TEXT NOT NULL PRIMARY KEY,
        max_nodes INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE templates (
        name TEXT NOT NULL,
        revision INTEGER NOT NULL,
        spec TEXT NOT NULL,
        applied_at REAL NOT NULL,
        PRIMARY KEY (name, revision)
    )
    """,
    """
    CREATE TABLE nodes (
        id TEXT NOT NULL PRIMARY KEY,
        template TEXT NOT NULL,
        revision INTEGER NOT NULL,
        provider TEXT NOT NULL,
        resource_class TEXT NOT NULL,
        usage_class TEXT NOT NULL,
        instance_type TEXT NOT NULL,
        machine_id TEXT NOT NULL,
        launch_id TEXT,
        state TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        entered_at REAL NOT NULL,
        deadline_at REAL,
        deadline_source TEXT NOT NULL,
        operation_id TEXT,
        assignment_id TEXT,
        run TEXT,
        owner TEXT,
        last_owner TEXT,
        boot_id TEXT,
        joined_at REAL,
        booted_at REAL,
        attached_at REAL,
        drain INTEGER NOT NULL,
        reason TEXT
    )
    """,
    # A machine has one live record at most.
    "CREATE UNIQUE INDEX nodes_live_machine ON nodes (provider, machine_id) WHERE state <> 'terminated'",
    "CREATE INDEX nodes_machine ON nodes (provider, machine_id, created_at)",
    "CREATE INDEX nodes_state ON nodes (state, id)",
    "CREATE INDEX nodes_template ON nodes (template, state, id)",
    "CREATE INDEX nodes_due ON nodes (deadline_at, id) WHERE deadline_at IS NOT NULL",
    "CREATE INDEX nodes_operation ON nodes (operation_id, created_at, id) WHERE operation_id IS NOT NULL",
    "CREATE INDEX nodes_launch ON nodes (launch_id) WHERE launch_id IS NOT NULL",
    "CREATE INDEX nodes_terminated ON nodes (entered_at, id) WHERE state = 'terminated'",
    # What a claim reads: the pool's nodes of one last owner (or of none), shortest idle first …
    """
    CREATE INDEX nodes_idle_owned ON nodes
        (template, revision, resource_class, usage_class, last_owner, entered_at DESC, id)
        WHERE state = 'idle' AND drain = 0
    """,
    # … and, where the owner does not matter, the whole pool in the same order.
    """
    CREATE INDEX nodes_idle ON nodes (template, revision, resource_class, usage_class, entered_at DESC, id)
        WHERE state = 'idle' AND drain = 0
    """,
    """
    CREATE TABLE credentials (
        node_id TEXT NOT NULL PRIMARY KEY,
        key_hash TEXT NOT NULL,
        token_hash TEXT NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX credentials_token ON credentials (token_hash)",
    # A booted node has a row here from then on; seen_at is null until it beats.
    "CREATE TABLE liveness (node_id TEXT NOT NULL PRIMARY KEY, seen_at REAL)",
    "CREATE INDEX liveness_seen ON liveness (seen_at, node_id)",
    """
    CREATE TABLE launches (
        id TEXT NOT NULL PRIMARY KEY,
        operation_id TEXT NOT NULL,
        token TEXT NOT NULL,
        template TEXT NOT NULL,
        revision INTEGER NOT NULL,
        provider TEXT NOT NULL,
        resource_class TEXT NOT NULL,
        usage_class TEXT NOT NULL,
        instance_types TEXT NOT NULL,
        count INTEGER NOT NULL,
        state TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        called_at REAL,
        calls INTEGER NOT NULL,
        adopted INTEGER NOT NULL,
        closed_at REAL,
        reason TEXT,
        message TEXT NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX launches_token ON launches (token)",
    "CREATE INDEX launches_operation ON launches (operation_id)",
    "CREATE INDEX launches_open ON launches (created_at, id) WHERE closed_at IS NULL",
    "CREATE INDEX launches_closed ON launches (closed_at, id) WHERE closed_at IS NOT NULL",
    """
    CREATE TABLE operations (
        id TEXT NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        request TEXT NOT NULL,
        template TEXT,
        run TEXT,
        idempotency_key TEXT,
        status TEXT NOT NULL,
        queued_since REAL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        ended_at REAL,
        deadline_at REAL NOT NULL,
        deadline_source TEXT NOT NULL,
        cancel_requested_at REAL,
        committed_at REAL,
        members TEXT NOT NULL,
        verdict TEXT,
        result TEXT NOT NULL,
        progress TEXT,
        lease_owner TEXT,
        lease_until REAL NOT NULL,
        epoch INTEGER NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX operations_key ON operations (idempotency_key) WHERE idempotency_key IS NOT NULL",
    "CREATE INDEX operations_status ON operations (status, created_at, id)",
    "CREATE INDEX operations_run ON operations (run, created_at, id) WHERE run IS NOT NULL",
    "CREATE INDEX operations_lapsed ON operations (lease_until, created_at, id) WHERE ended_at IS NULL",
    "CREATE INDEX operations_queue ON operations (template, created_at, id) WHERE queued_since IS NOT NULL",
    "CREATE INDEX operations_ended ON operations (ended_at, id) WHERE ended_at IS NOT NULL",
    "CREATE TABLE pools (template TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, refill TEXT)",
    "CREATE TABLE counters (scope TEXT NOT NULL PRIMARY KEY, used INTEGER NOT NULL)",
    """
    CREATE TABLE duties (
        name TEXT NOT NULL PRIMARY KEY,
        lease_owner TEXT NOT NULL,
        lease_until REAL NOT NULL
    )
    """,
    # AUTOINCREMENT: a number is never given again, even after the newest event was pruned.
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        entity TEXT NOT NULL,
        entity_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        name TEXT NOT NULL,
        changes TEXT NOT NULL,
        detail TEXT NOT NULL
    )
    """,
    "CREATE INDEX events_entity ON events (entity_id, seq)",
)

_COMMANDS = (
    """
    CREATE TABLE commands (
        id TEXT NOT NULL PRIMARY KEY,
        operation_id TEXT NOT NULL,
        assignment_id TEXT NOT NULL,
        node_id TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        count INTEGER NOT NULL,
        run TEXT NOT NULL,
        execution TEXT NOT NULL,
        state TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        started_at REAL,
        ended_at REAL,
        cancel_requested_at REAL,
        exit_code INTEGER,
        signal INTEGER,
        detail TEXT NOT NULL
    )
    """,
    "CREATE INDEX commands_operation ON commands (operation_id, created_at, id)",
    "CREATE INDEX commands_assignment ON commands (assignment_id, created_at, id) WHERE ended_at IS NULL",
    "CREATE INDEX commands_unfinished ON commands (created_at, id) WHERE ended_at IS NULL",
    "CREATE INDEX commands_age ON commands (created_at, id)",
    "CREATE INDEX commands_run ON commands (run, created_at, id)",
    # Output in chunks, each at the offset where it starts; they touch and never overlap.
    """
    CREATE TABLE command_output (
        command_id TEXT NOT NULL,
        start INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (command_id, start)
    )
    """,
    """
    CREATE TABLE api_tokens (
        id TEXT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        created_at REAL NOT NULL,
        expires_at REAL,
        revoked_at REAL,
        secret_hash TEXT NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX api_tokens_secret ON api_tokens (secret_hash)",
    "CREATE TABLE pauses (template TEXT NOT NULL PRIMARY KEY, since REAL NOT NULL)",
)

_HEALTH = (
    "ALTER TABLE nodes ADD COLUMN detail TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE nodes ADD COLUMN phase TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE nodes ADD COLUMN step TEXT NOT NULL DEFAULT ''",
    # A node's vitals: what it says of itself, what is seen of it, and the health that was judged from both.
    "ALTER TABLE liveness ADD COLUMN boot_id TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE liveness ADD COLUMN joined_at REAL",
    "ALTER TABLE liveness ADD COLUMN stale_after REAL",
    "ALTER TABLE liveness ADD COLUMN said TEXT",
    "ALTER TABLE liveness ADD COLUMN said_reason TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE liveness ADD COLUMN activity INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE liveness ADD COLUMN advanced_at REAL",
    "ALTER TABLE liveness ADD COLUMN probe_failures INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE liveness ADD COLUMN probe_passing_since REAL",
    "ALTER TABLE liveness ADD COLUMN probed_at REAL",
    "ALTER TABLE liveness ADD COLUMN health TEXT NOT NULL DEFAULT 'starting'",
    "ALTER TABLE liveness ADD COLUMN health_reason TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE liveness ADD COLUMN health_source TEXT NOT NULL DEFAULT 'reconcile'",
    "ALTER TABLE liveness ADD COLUMN health_since REAL NOT NULL DEFAULT 0",
    "ALTER TABLE liveness ADD COLUMN health_version INTEGER NOT NULL DEFAULT 0",
    # Not in the record: what the duties look for, so that each finds its few among many.
    "ALTER TABLE liveness ADD COLUMN booting INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE liveness ADD COLUMN stall_after REAL",
    "ALTER TABLE liveness ADD COLUMN news INTEGER NOT NULL DEFAULT 0",
    "UPDATE liveness SET said = 'ready', health = 'ready'",
    "CREATE INDEX liveness_news ON liveness (node_id) WHERE news = 1",
    "CREATE INDEX liveness_starting ON liveness (joined_at, node_id) WHERE health = 'starting'",
    "CREATE INDEX liveness_offline ON liveness (health_since, node_id) WHERE health = 'offline'",
    "CREATE INDEX liveness_booting ON liveness (advanced_at, node_id) WHERE booting = 1",
    """
    CREATE TABLE boot_marks (
        node_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        at REAL NOT NULL,
        phase TEXT NOT NULL,
        step TEXT NOT NULL,
        PRIMARY KEY (node_id, version)
    )
    """,
    """
    CREATE TABLE boots (
        node_id TEXT NOT NULL PRIMARY KEY,
        template TEXT NOT NULL,
        revision INTEGER NOT NULL,
        instance_type TEXT NOT NULL,
        booted_at REAL NOT NULL,
        seconds REAL NOT NULL,
        phases TEXT NOT NULL
    )
    """,
    "CREATE INDEX boots_kind ON boots (template, revision, instance_type, booted_at, node_id)",
    "CREATE INDEX boots_age ON boots (booted_at, node_id)",
    "CREATE TABLE bundles (node_id TEXT NOT NULL PRIMARY KEY, bundle TEXT NOT NULL)",
    """
    CREATE TABLE watch (
        id INTEGER NOT NULL PRIMARY KEY,
        since REAL NOT NULL,
        ticked_at REAL NOT NULL,
        away_from REAL
    )
    """,
)

_SERVICES = (
    # Apps that are nodes themselves: where they can be probed, and when they said goodbye.
    "ALTER TABLE nodes ADD COLUMN address TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE nodes ADD COLUMN left_at REAL",
    # The one template that an enrolment token is good for.
    "ALTER TABLE api_tokens ADD COLUMN template TEXT",
)
_TRUNCATED = ("ALTER TABLE commands ADD COLUMN truncated_at INTEGER",)

_OVERVIEW = (
    # The actor; empty if there is none, or if it is unknown.
    "ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT ''",
    """
    CREATE INDEX events_changes ON events (at, seq)
        WHERE actor <> '' OR entity IN ('template', 'installation')
    """,
    "ALTER TABLE duties ADD COLUMN ticked_at REAL",
    "ALTER TABLE duties ADD COLUMN problem TEXT NOT NULL DEFAULT ''",
    """
    CREATE TABLE failures (
        id TEXT NOT NULL PRIMARY KEY,
        what TEXT NOT NULL,
        at REAL NOT NULL,
        reason TEXT NOT NULL,
        cause TEXT,
        template TEXT,
        revision INTEGER,
        node_id TEXT,
        operation_id TEXT,
        detail TEXT NOT NULL
    )
    """,
    "CREATE INDEX failures_at ON failures (at, id)",
    "ALTER TABLE operations ADD COLUMN warm INTEGER NOT NULL DEFAULT 0",
    """
    CREATE INDEX operations_committed ON operations (committed_at, id)
        WHERE kind = 'provision' AND committed_at IS NOT NULL
    """,
    "CREATE INDEX nodes_terminating ON nodes (state, entered_at, id) WHERE state = 'terminating'",
)

_CLUSTERS = (
    """
    CREATE TABLE clusters (
        id TEXT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL,
        template TEXT NOT NULL,
        revision INTEGER NOT NULL,
        provider TEXT NOT NULL,
        state TEXT NOT NULL,
        stage TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        stage_at REAL NOT NULL,
        operation_id TEXT NOT NULL,
        group_asked_at REAL,
        asked_at REAL,
        answered INTEGER NOT NULL,
        principal TEXT NOT NULL,
        kubelet TEXT NOT NULL,
        fqdn TEXT NOT NULL,
        kubernetes_version TEXT NOT NULL,
        ready_at REAL,
        reason TEXT,
        detail TEXT NOT NULL
    )
    """,
    # A name has one live cluster at most. Azure doesn't tell cases apart.
    "CREATE UNIQUE INDEX clusters_live_name ON clusters (lower(name)) WHERE state <> 'deleted'",
    "CREATE INDEX clusters_name ON clusters (lower(name), created_at, id)",
    "CREATE INDEX clusters_state ON clusters (state, created_at, id)",
    "CREATE INDEX clusters_operation ON clusters (operation_id)",
    "CREATE INDEX clusters_ready ON clusters (template, ready_at, id) WHERE ready_at IS NOT NULL",
    # A secret, apart from the record: from where the provider's work can be followed.
    "CREATE TABLE cluster_tokens (cluster_id TEXT NOT NULL PRIMARY KEY, token TEXT NOT NULL)",
)

_HOME = (
    # Where the process nodes of all replicas are kept; none of them may look for them elsewhere.
    "ALTER TABLE installation ADD COLUMN process_home TEXT",
)

_ROLES_LEFT = (
    "ALTER TABLE clusters ADD COLUMN roles_left TEXT NOT NULL DEFAULT ''",
    # Kept by mistake for creates that failed and were left.
    "DELETE FROM cluster_tokens WHERE cluster_id IN (SELECT id FROM clusters WHERE state <> 'creating')",
)

_OLDEST_FIRST = (
    # Its state first, or SQLite prefers the index of all states and sorts what it finds.
    "DROP INDEX nodes_terminated",
    "CREATE INDEX nodes_terminated ON nodes (state, entered_at, id) WHERE state = 'terminated'",
)

_LOSSES = (
    # Why a command was lost.
    "ALTER TABLE commands ADD COLUMN reason TEXT",
)

_ACKNOWLEDGEMENTS = (
    """
    CREATE TABLE acknowledgements (
        finding TEXT NOT NULL PRIMARY KEY,
        tone TEXT NOT NULL,
        at REAL NOT NULL,
        actor TEXT NOT NULL
    )
    """,
)

_ERRORS = (
    # Unforeseen errors in a row while it was driven.
    "ALTER TABLE operations ADD COLUMN errors INTEGER NOT NULL DEFAULT 0",
)

_WAITING_OWNERS = (
    # Of operations that may wait for room: whose they are, so that the waiting ones of one owner are counted.
    "ALTER TABLE operations ADD COLUMN waiting_owner TEXT",
    """
    CREATE INDEX operations_waiting_owner ON operations (waiting_owner)
        WHERE status = 'queued' AND waiting_owner IS NOT NULL
    """,
)

_TEMPLATE_VERSIONS = (
    # Of every change, also of those that make no revision; NULL: as the revision.
    "ALTER TABLE templates ADD COLUMN version INTEGER",
)

_REPLICAS = (
    # When each replica last asked for work.
    "CREATE TABLE replicas (owner TEXT NOT NULL PRIMARY KEY, seen_at REAL NOT NULL)",
)

_COMMAND_DEADLINES = (
    # When a command's own timeout is over.
    "ALTER TABLE commands ADD COLUMN deadline_at REAL",
    "CREATE INDEX commands_deadline ON commands (deadline_at, id) WHERE ended_at IS NULL",
)

_PACE = (
    # How often nodes beat, and the longest interval that some of them may still use.
    "ALTER TABLE watch ADD COLUMN beat_seconds REAL",
    "ALTER TABLE watch ADD COLUMN longest_beat REAL",
    "ALTER TABLE watch ADD COLUMN longest_beat_until REAL",
)

_JOBS = (
    """
    CREATE TABLE jobs (
        id TEXT NOT NULL PRIMARY KEY,
        source TEXT NOT NULL,
        state TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        repository TEXT NOT NULL,
        run TEXT NOT NULL,
        attempt INTEGER,
        name TEXT NOT NULL,
        workflow TEXT NOT NULL,
        event TEXT NOT NULL,
        labels TEXT NOT NULL,
        queue TEXT NOT NULL,
        queued_at REAL,
        assigned_at REAL,
        started_at REAL,
        completed_at REAL,
        result TEXT,
        runner TEXT NOT NULL,
        assignment_id TEXT,
        template TEXT,
        operation_id TEXT,
        tries INTEGER NOT NULL,
        node_id TEXT,
        warm INTEGER,
        unserved TEXT,
        detail TEXT NOT NULL,
        interrupted INTEGER NOT NULL,
        rerun_at REAL
    )
    """,
    "CREATE INDEX jobs_state ON jobs (state, created_at, id)",
    "CREATE INDEX jobs_run ON jobs (repository, run, created_at, id)",
    "CREATE INDEX jobs_updated ON jobs (updated_at, id)",
    """
    CREATE TABLE job_sources (
        source TEXT NOT NULL,
        queue TEXT NOT NULL,
        at REAL NOT NULL,
        scope TEXT NOT NULL,
        template TEXT,
        state TEXT NOT NULL,
        problem TEXT NOT NULL,
        available INTEGER NOT NULL,
        assigned INTEGER NOT NULL,
        running INTEGER NOT NULL,
        registered INTEGER NOT NULL,
        busy INTEGER NOT NULL,
        idle INTEGER NOT NULL,
        least INTEGER NOT NULL,
        most INTEGER,
        desired INTEGER NOT NULL,
        PRIMARY KEY (source, queue)
    )
    """,
)

_ACTS = (
    # Who did what, in the order of time. Requests for work are many, so the list of changes leaves them out.
    "DROP INDEX events_changes",
    """
    CREATE INDEX events_changes ON events (at, seq)
        WHERE (actor <> '' OR entity IN ('template', 'installation'))
        AND name NOT IN ('submitted', 'pending', 'joined')
    """,
    "CREATE INDEX events_acts ON events (at, seq) WHERE actor <> ''",
)

_TRACES = ("ALTER TABLE operations ADD COLUMN trace TEXT NOT NULL DEFAULT ''",)

_BOOKMARKS = ("ALTER TABLE duties ADD COLUMN bookmark TEXT",)

_SHELLS = (
    # Who asked for a command, and how many bytes went through its terminal.
    "ALTER TABLE commands ADD COLUMN actor TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE commands ADD COLUMN traffic TEXT",
)

_SIGN_IN = (
    # Sessions of the page and logins of terminals are tokens of their own kinds.
    "ALTER TABLE api_tokens ADD COLUMN kind TEXT NOT NULL DEFAULT 'token'",
    "ALTER TABLE api_tokens ADD COLUMN idle_timeout REAL",
    "ALTER TABLE api_tokens ADD COLUMN seen_at REAL",
    # Terminals that wait for a person to confirm their code.
    """
    CREATE TABLE device_requests (
        user_code TEXT NOT NULL PRIMARY KEY,
        machine TEXT NOT NULL,
        created_at REAL NOT NULL,
        expires_at REAL NOT NULL,
        settled TEXT,
        secret_hash TEXT NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX device_requests_secret ON device_requests (secret_hash)",
)

_POOL_SAMPLES = (
    # One row a minute, for a day: what the pools' nodes did.
    "CREATE TABLE pool_samples (at REAL NOT NULL PRIMARY KEY, sample TEXT NOT NULL)",
)

_CLAIMS = (
    # What rules give a role to, at each request of a person who signed in.
    "ALTER TABLE api_tokens ADD COLUMN claims TEXT",
)

_DEVICE_ADDRESSES = (
    # So that a flood of requests from one address displaces its own ones.
    "ALTER TABLE device_requests ADD COLUMN address TEXT NOT NULL DEFAULT ''",
)

_FAILING_SOURCES = ("ALTER TABLE job_sources ADD COLUMN failing_since REAL",)
_UNDELIVERED = (
    # Messages of webhooks that no receiver has taken yet, each with its event: the feed may be pruned.
    """
    CREATE TABLE undelivered (
        id TEXT NOT NULL PRIMARY KEY,
        version INTEGER NOT NULL,
        webhook TEXT NOT NULL,
        event TEXT NOT NULL,
        since REAL NOT NULL,
        tries INTEGER NOT NULL,
        tried_at REAL,
        due_at REAL,
        problem TEXT NOT NULL
    )
    """,
    "CREATE INDEX undelivered_webhook ON undelivered (webhook, id)",
    "CREATE INDEX undelivered_since ON undelivered (since)",
)
_GIVEN_UP = (
    "ALTER TABLE undelivered ADD COLUMN given_up_at REAL",
    "UPDATE undelivered SET given_up_at = coalesce(tried_at, since) WHERE due_at IS NULL",
)

_REFUSED = ("ALTER TABLE undelivered ADD COLUMN refused INTEGER NOT NULL DEFAULT 0",)

MIGRATIONS: tuple[Migration, ...] = (
    Migration(version=1, name="initial", statements=_INITIAL),
    Migration(version=2, name="commands, tokens and pauses", statements=_COMMANDS),
    Migration(version=3, name="health, boots and diagnosis", statements=_HEALTH),
    Migration(version=4, name="services", statements=_SERVICES),
    Migration(version=5, name="truncated output", statements=_TRUNCATED),
    Migration(version=6, name="overview", statements=_OVERVIEW),
    Migration(version=7, name="clusters", statements=_CLUSTERS),
    Migration(version=8, name="the home of process nodes", statements=_HOME),
    Migration(version=9, name="roles that are left", statements=_ROLES_LEFT),
    Migration(version=10, name="terminated nodes, oldest first", statements=_OLDEST_FIRST),
    Migration(version=11, name="why commands were lost", statements=_LOSSES),
    Migration(version=12, name="acknowledgements", statements=_ACKNOWLEDGEMENTS),
    Migration(version=13, name="errors of operations", statements=_ERRORS),
    Migration(version=14, name="owners of waiting operations", statements=_WAITING_OWNERS),
    Migration(version=15, name="versions of templates", statements=_TEMPLATE_VERSIONS),
    Migration(version=16, name="signs of life of replicas", statements=_REPLICAS),
    Migration(version=17, name="deadlines of commands", statements=_COMMAND_DEADLINES),
    Migration(version=18, name="the pace of beats", statements=_PACE),
    Migration(version=19, name="jobs", statements=_JOBS),
    Migration(version=20, name="acts", statements=_ACTS),
    Migration(version=21, name="traces of operations", statements=_TRACES),
    Migration(version=22, name="bookmarks of duties", statements=_BOOKMARKS),
    Migration(version=23, name="shells", statements=_SHELLS),
    Migration(version=24, name="sessions and logins", statements=_SIGN_IN),
    Migration(version=25, name="samples of the pools", statements=_POOL_SAMPLES),
    Migration(version=26, name="claims of people", statements=_CLAIMS),
    Migration(version=27, name="addresses of terminals", statements=_DEVICE_ADDRESSES),
    Migration(version=28, name="undelivered messages", statements=_UNDELIVERED),
    Migration(version=29, name="failing sources of jobs", statements=_FAILING_SOURCES),
    Migration(version=30, name="when messages were given up", statements=_GIVEN_UP),
    Migration(version=31, name="messages that are refused", statements=_REFUSED),
)
LATEST = MIGRATIONS[-1].version


def current(tx: Tx) -> int:
    """Return the version of a store; 0 for an empty one. Refuses a store that is newer than this program."""
    tx.change(
        """
        CREATE TABLE IF NOT EXISTS schema_migrations (
            version INTEGER NOT NULL PRIMARY KEY,
            name TEXT NOT NULL
        )
        """
    )
    version: int = tx.execute("SELECT coalesce(max(version), 0) FROM schema_migrations")[0][0]
    if version > LATEST:
        raise StoreUnavailable(
            f"cannot use this store: its schema is version {version}, and this program knows up to {LATEST};"
            " start the version of Muster that wrote it, or a later one"
        )
    return version


def advance(tx: Tx, *, upto: int = LATEST) -> bool:
    """Apply the next migration, and to an empty store all of them. False: there is none left."""
    version = current(tx)
    if version >= upto:
        return False
    for migration in MIGRATIONS[version : version + 1 if version else upto]:
        for statement in migration.statements:
            tx.change(statement)
        tx.change(
            "INSERT INTO schema_migrations (version, name) VALUES (:version, :name)",
            {"version": migration.version, "name": migration.name},
        )
    return True
