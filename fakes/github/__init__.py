"""A small GitHub: `muster_simulation.github` over HTTP, with a runner, a package of it and an issuer.

server     all of it over HTTP; `transport`: without  runner/   a runner with the real one's command line
issuer     signs for jobs, as the real one does (OIDC)
"""

from fakes.github.server import FakeGitHub
from fakes.github.transport import WorldTransport
from muster_simulation.github import Fault, GitHubState, Job, Runner, ScaleSet

__all__ = ["FakeGitHub", "Fault", "GitHubState", "Job", "Runner", "ScaleSet", "WorldTransport"]
