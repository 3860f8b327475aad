"""What runners of GitHub Actions add to Muster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.integration import Check, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import RequestTable, Table, TemplateTable


class GitHubActions(Integration):
    name = "github"
    runtimes = (name,)
    setup = "see docs/github.md"

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.github.tables import SETTINGS, TRUST

        return {self.name: SETTINGS, "trust": TRUST}

    def template_tables(self) -> Sequence["TemplateTable[Any]"]:
        from muster.integrations.github.tables import TEMPLATE

        return (TEMPLATE,)

    def request_tables(self) -> Sequence["RequestTable[Any]"]:
        from muster.integrations.github.requests import JOB, SET_RUNNER, WORKFLOW

        return (WORKFLOW, JOB, SET_RUNNER)

    async def connect(self, site: Site) -> Parts:
        from muster.integrations.github.parts import connect

        return await connect(site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.github.doctor import checks

        return checks(machine.config)


INTEGRATION = GitHubActions()
