"""What the provider `ec2` adds to Muster."""

from collections.abc import Mapping
from typing import Any, ClassVar

from muster.integration import OPERATING, Command, Integration


class Ec2(Integration):
    name = "ec2"
    providers = (name,)
    setup = "set region under [ec2]: see docs/ec2.md"
    commands: ClassVar[Mapping[str, Command]] = {
        "iam": Command(
            OPERATING, "Print the AWS policies that server and nodes need.", "muster.integrations.ec2.iam"
        )
    }

    def used(self, tables: Mapping[str, Any]) -> bool:
        return bool(tables[self.name].region)


INTEGRATION = Ec2()
