"""Promises about who is heard and who hears: by a living token, and in time."""

from muster.domain.access import hashed
from muster.domain.events import Event
from muster.domain.ids import NodeId
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import Record

WAY = 10.0
"""Seconds that a look at the store and an answer may take."""
LINE = 36.0
"""Seconds of calm in which a node hears what to do, for each message that was lost and one more. A stream
speaks every 24 s, and an agent gives a silent one up after 30 s."""
POLL = 20.0
"""Seconds beyond a long poll after which its agent has given it up and asked again."""
_UNHEARD = {"claimed": ("attach_failed", "attach"), "releasing": ("release_timeout", "detach")}
"""For what a node is given up that doesn't do what it was told, by its state, and what that was."""


class TokenRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self._tokens: dict[NodeId, tuple[str, float]] = {}
        self._living: dict[NodeId, str] = {}
        """The present token of each node that showed it: what shows it again is not hashed again."""

    def admitted(self, node_id: NodeId, token_hash: str) -> None:
        """A node got a token: the one it had before is dead."""
        self._tokens[node_id] = (token_hash, self._at.now())
        self._living.pop(node_id, None)

    def recognised(self, token: str, node_id: NodeId) -> None:
        if self._living.get(node_id) == token:
            return
        present, since = self._tokens[node_id]
        if hashed(token) == present:
            self._living[node_id] = token
            return
        if self._at.presence.calm_since > since:
            return
        dead_for = self._at.now() - since
        if dead_for > WAY:
            raise Broken("dead_tokens_name_no_node", f"{node_id} has had another token for {dead_for:.0f} s")


class HearingRules:
    def __init__(self, context: Context) -> None:
        self._at = context

    def check(self, event: Event, before: Record | None) -> None:
        """Who is given up for not doing what it was told was told."""
        if event.name != "condemn" or before is None:
            return
        reason, told = _UNHEARD.get(before["state"], ("", ""))
        agent = self._at.agents.get(before["machine_id"])
        if agent is None or event.changes.get("reason") != reason:
            return
        since: float = before["entered_at"]
        if max(agent.disturbed_until, self._at.presence.calm_since) > since:
            return
        lost = sum(1 for at in agent.losses if at >= since)
        heard = (agent.told_to, agent.wanted) == (told, before["assignment_id"])
        within = (1 + lost) * max(LINE, agent.poll + POLL)
        if not heard and event.at - since > within:
            raise Broken(
                "who_listens_hears",
                f"{event.at - since:.0f} s and {lost} lost messages later the agent knows only"
                f" {agent.told_to} {agent.wanted}: {before}",
            )
