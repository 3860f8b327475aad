"""Acts: the events that name who caused them, and the choice among them for an audit."""

from dataclasses import dataclass
from typing import Protocol


class Acted(Protocol):
    """An event, in the store's form or in the API's."""

    @property
    def name(self) -> str: ...
    @property
    def entity(self) -> str: ...
    @property
    def entity_id(self) -> str: ...
    @property
    def actor(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActFilter:
    """Which acts are wanted. An empty field wants all."""

    who: str = ""
    """A part of the actor's name or token id, in any case of letters."""
    names: tuple[str, ...] = ()
    """Names of events."""
    entity: str = ""
    """A kind of thing, or the id of one."""

    def matches(self, event: Acted) -> bool:
        """Return whether an event is an act, and one of those that are wanted."""
        return (
            bool(event.actor)
            and self.who.lower() in event.actor.lower()
            and (not self.names or event.name in self.names)
            and (not self.entity or self.entity in (event.entity, event.entity_id))
        )
