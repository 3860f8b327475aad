"""Who a joining agent is: it shows the secret that was put into its container.

A proof is `docker:<machine id>:<secret>`. The container's label has only the secret's hash, which lets no
reader join. A container that doesn't run proves nothing.
"""

from collections.abc import Mapping

from muster.domain.access import check_secret, read_proof
from muster.domain.errors import Forbidden, NotYet
from muster.integrations.docker import answers, names
from muster.integrations.docker.api import Engine, EngineError, NoAnswer, path_of
from muster.integrations.docker.spec import DOCKER
from muster.ports.identity import Identity
from muster.ports.provider import MachineState

AGAIN = 2.0


class DockerVerifier:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, engines: Mapping[str, Engine], *, installation_id: str) -> None:
        self._engines = engines
        self._installation_id = installation_id

    async def verify(self, proof: str) -> Identity:
        machine_id, secret = read_proof(proof, DOCKER)
        machine = names.parsed(machine_id)
        engine = None if machine is None else self._engines.get(machine.engine)
        if machine is None or engine is None:
            raise Forbidden("cannot accept the proof: there is no such machine here")
        try:
            found = await engine.get(path_of("containers", machine.container, "json"))
        except NoAnswer as error:
            raise NotYet(f"cannot check the proof: engine {engine.name} does not answer", AGAIN) from error
        except EngineError as error:
            if not error.missing:
                raise NotYet(f"cannot check the proof: engine {engine.name}: {error}", AGAIN) from error
            raise Forbidden("cannot accept the proof: there is no such machine here") from error
        return self._identity(machine_id, secret, found)

    def _identity(self, machine_id: str, secret: str, found: object) -> Identity:
        labels = answers.labels_of(found)
        ours = labels.get(names.INSTALLATION) == self._installation_id
        if not ours or labels.get(names.MACHINE) != machine_id:
            raise Forbidden("cannot accept the proof: there is no such machine here")
        check_secret(secret, labels.get(names.SECRET_HASH, ""))
        state = found.get("State") if isinstance(found, Mapping) else None
        word = state.get("Status") if isinstance(state, Mapping) else None
        if answers.state_of(word) is not MachineState.RUNNING:
            raise Forbidden("cannot accept the proof: the machine does not run")
        return Identity(
            provider=DOCKER,
            machine_id=machine_id,
            installation_id=self._installation_id,
            token=labels.get(names.TOKEN),
        )
