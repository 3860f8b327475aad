"""A table of a template that an integration reads. Templates carry it as plain data."""

from collections.abc import Mapping
from typing import Protocol

from muster.domain.serialization import Plain
from muster.domain.template import TemplateSpec


class TemplatePart(Protocol):
    @property
    def name(self) -> str: ...

    def whole(self, spec: TemplateSpec) -> Mapping[str, Plain] | None:
        """Return the table with every default, as it is stored; None: this template has none.

        Raises InvalidRequest, naming the key as `TABLE.KEY`, for a value that no template may have.
        """
        ...

    def check(self, spec: TemplateSpec) -> None:
        """Raise InvalidRequest for a value that may not be applied any more. Stored templates may have it."""
        ...
