"""A small GitHub: runners, workflow runs and their jobs, apps and tokens, and the faults of the real one.

state     what exists, and what happens to it         runner/   a runner with the real one's command line
routes    the REST API over it, and the runners' own  issuer    signs for jobs, as the real one does (OIDC)
scalesets sets, sessions, their queues of messages    service   the Actions service over them
faults    what goes wrong, on demand                  server    all of it over HTTP; `transport`: without
"""

from fakes.github.faults import Fault
from fakes.github.scalesets import ScaleSet
from fakes.github.server import FakeGitHub
from fakes.github.state import GitHubState, Job, Runner
from fakes.github.transport import WorldTransport

__all__ = ["FakeGitHub", "Fault", "GitHubState", "Job", "Runner", "ScaleSet", "WorldTransport"]
