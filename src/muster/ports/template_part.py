"""Tables of templates and requests that integrations read. They are carried as plain data."""

from collections.abc import Mapping
from typing import Protocol

from muster.domain.requests import ProvisionRequest
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


class RequestPart(Protocol):
    @property
    def name(self) -> str: ...

    def whole(self, request: ProvisionRequest) -> Mapping[str, Plain] | None:
        """Return the table with every default, as it is stored; None: this request has none.

        Raises InvalidRequest, naming the key as `TABLE.KEY`.
        """
        ...

    def check(self, request: ProvisionRequest, spec: TemplateSpec) -> None:
        """Raise InvalidRequest if the request has the table and the template is of another runtime."""
        ...
