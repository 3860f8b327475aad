"""GitHub, as far as runners need it: state and answers, without a network and without a clock of its own.

It knows nothing of Muster. `fakes.github` serves it over HTTP for tests and demos. `muster_simulation.jobs`
plays with it in virtual time.

state     what exists, and what happens to it         scalesets  sets, sessions, their queues of messages
routes    the REST API over it, and the runners' own  service    the Actions service over them
exchange  requests, answers, faults on demand         webhooks   what it sends, signed
"""

from muster_simulation.github.exchange import Fault
from muster_simulation.github.scalesets import ScaleSet
from muster_simulation.github.state import GitHubState, Job, Run, Runner

__all__ = ["Fault", "GitHubState", "Job", "Run", "Runner", "ScaleSet"]
