"""What must hold, whatever crashes when. One module per kind of promise; `judge` asks them all.

The judge believes the event feed, the cloud's ledger and the agents' own state, never a replica.
"""

from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.judge import Judge

__all__ = ["Broken", "Judge"]
