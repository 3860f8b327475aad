"""Declare tables of the settings file: the value of a table, and checks of its keys.

The reader of the file does the rest: it suggests the nearest name for an unknown key, and adds file and line
to errors.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from muster.config import values
from muster.config.settings_file import nearest
from muster.config.values import Check
from muster.domain.errors import InvalidRequest
from muster.domain.requests import ProvisionRequest
from muster.domain.serialization import Plain, field_names, fields_to_plain, from_plain
from muster.domain.template import TemplateSpec

T = TypeVar("T")


def _fine(_value: Any) -> None:
    """Accept any combination of keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: `[ec2]`. Its value is `kind(**keys)`, and the fields of `kind` are its keys."""

    kind: Callable[..., Any]
    keys: Mapping[str, Check] = field(default_factory=dict)
    """Checks of keys whose type does not tell what is allowed: a number's bounds, a URL. Of all keys, if
    `kind` is no dataclass."""
    environment: tuple[str, ...] = ()
    """Keys that the environment may set: `region` of [ec2] as MUSTER_EC2_REGION."""
    secret: tuple[str, ...] = ()
    """Keys that only the environment may set. Files are copied, shown and kept in histories."""
    maps: tuple[str, ...] = ()
    """Keys that are tables with free names. The check is for each of their values."""
    free: tuple[str, ...] = ()
    """Keys that are tables with any content, to any depth. `kind` checks it."""
    fixed: tuple[str, ...] = ()
    """Fields that are no settings."""
    private: tuple[str, ...] = ()
    """Keys that name files which jobs on this machine must not see."""
    named: bool = False
    """Each of its tables has a name: [trust.NAME]. The value is a tuple, and `kind` takes the name too."""
    check: Callable[[Any], None] = _fine
    """How the keys go together. Raises InvalidRequest, naming one of them."""

    def __post_init__(self) -> None:
        if is_dataclass(self.kind):
            left_out = (*self.fixed, *(("name",) if self.named else ()))
            object.__setattr__(self, "keys", values.of_fields(self.kind, self.keys, *left_out))

    def variable(self, table: str, key: str) -> str:
        return f"MUSTER_{table}_{key}".upper()


def _any(_spec: TemplateSpec, _value: Any) -> None:
    """Accept any combination of table and template."""


def _as_it_is(_name: str, value: object) -> object:
    """Accept a value that `read` checks together with the others."""
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateTable(Generic[T]):
    """One table of a template: `[templates.NAME.ec2]`. Implements muster.ports.bundle.TemplatePart.

    A template carries it as plain data; `of` reads it. What is stored has every default.
    """

    name: str
    kind: type[T]
    """A frozen dataclass that checks itself. Its fields are the keys."""
    keys: Mapping[str, Check] = field(default_factory=dict)
    """Checks of keys whose type does not tell what is allowed."""
    provider: str = ""
    """The provider, or the family of providers, whose templates may have it."""
    runtime: str = ""
    """The runtime whose templates may have it."""
    read: Callable[[Mapping[str, Any]], T] | None = None
    """Reads a table that has tables in it, whose keys the check of each key can't reach. Raises
    InvalidRequest, naming the key inside the table: `pools[1].count`."""
    needs: tuple[str, ...] = ()
    """Keys without a default. A template of this provider or runtime must have the table."""
    always: bool = False
    """Every template shows it, also of other providers: as the first ones did. Leave it out."""
    sparse: tuple[str, ...] = ()
    """Keys that are stored only with another value than their default. Templates that were stored before the
    table had these keys stay equal."""
    rule: Callable[[TemplateSpec, T], None] = _any
    """How the table and the rest of the template go together. Raises InvalidRequest."""
    warning: Callable[[TemplateSpec, T], None] = _any
    """The same, for what stored templates may say and new ones may not."""
    example: Mapping[str, Plain] = field(default_factory=dict)
    """What the API's description shows, with every key."""

    def __post_init__(self) -> None:
        unread = {} if self.read is None else dict.fromkeys(field_names(self.kind), _as_it_is)
        object.__setattr__(self, "keys", values.of_fields(self.kind, {**unread, **self.keys}))

    def of(self, spec: TemplateSpec) -> T:
        """Return what a template says in this table; the defaults, if it says nothing."""
        given = spec.tables.get(self.name)
        return self._read(given if isinstance(given, Mapping) else {})

    def serves(self, spec: TemplateSpec) -> bool:
        own = self.provider and f"{spec.provider}-".startswith(f"{self.provider}-")
        return bool(own) or spec.runtime == self.runtime

    def whole(self, spec: TemplateSpec) -> Mapping[str, Plain] | None:
        given = spec.tables.get(self.name)
        if given is None and not self.always and not self.serves(spec):
            return None
        if given is None and self.needs:
            raise InvalidRequest(self.name, None, f"is required for {self._whose}")
        if given is not None and not isinstance(given, Mapping):
            raise InvalidRequest(self.name, given, "must be a table")
        value = self._read(given or {})
        if not self.serves(spec) and not (self.always and value == self.kind()):
            raise InvalidRequest(
                self.name, "…", f"must be left out: it is for {self._whose}, and refused for any other"
            )
        self.rule(spec, value)
        stored, usual = fields_to_plain(value), self.kind.__dataclass_fields__  # type: ignore[attr-defined]  # one
        return {
            key: each for key, each in stored.items() if key not in self.sparse or each != usual[key].default
        }

    def check(self, spec: TemplateSpec) -> None:
        if self.serves(spec):
            self.warning(spec, self.of(spec))

    @property
    def _whose(self) -> str:
        return f"the provider {self.provider}" if self.provider else f"the runtime {self.runtime}"

    def _read(self, content: Mapping[str, Plain]) -> T:
        return _value(self.name, content, self.keys, self.needs, self.read or partial(from_plain, self.kind))


def _any_request(_request: ProvisionRequest, _value: Any) -> None:
    """Accept any combination of table and request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTable(Generic[T]):
    """One table of a provision request: `"workflow": {…}`. Implements muster.ports.bundle.RequestPart.

    A request carries it as plain data; `of` reads it. What is stored has every default.
    """

    name: str
    kind: type[T]
    """A frozen dataclass that checks itself."""
    runtime: str
    """The runtime of the templates for which it may be given."""
    rule: Callable[[ProvisionRequest, T], None] = _any_request
    """How the table and the rest of the request go together. Raises InvalidRequest."""

    def of(self, request: ProvisionRequest) -> T | None:
        """Return what a request says in this table; None: nothing."""
        given = request.tables.get(self.name)
        return None if given is None else self._read(given)

    def whole(self, request: ProvisionRequest) -> Mapping[str, Plain] | None:
        value = self.of(request)
        if value is None:
            return None
        self.rule(request, value)
        return fields_to_plain(value)

    def check(self, request: ProvisionRequest, spec: TemplateSpec) -> None:
        if self.name in request.tables and spec.runtime != self.runtime:
            rule = f"its runtime is {spec.runtime}, and `{self.name}` is for the runtime {self.runtime}"
            raise InvalidRequest("template", spec.name, rule)

    def _read(self, content: Mapping[str, Plain]) -> T:
        return _value(self.name, content, field_names(self.kind), (), partial(from_plain, self.kind))


def _value(
    table: str,
    content: Mapping[str, Plain],
    keys: Collection[str],
    needs: Sequence[str],
    read: Callable[[Mapping[str, Plain]], T],
) -> T:
    """Return the value of a table. Raises InvalidRequest, naming the key as `TABLE.KEY`."""
    for key in content:
        if key not in keys:
            raise InvalidRequest(f"{table}.{key}", content[key], nearest(key, keys))
    for key in needs:
        if key not in content:
            raise InvalidRequest(f"{table}.{key}", None, "must be given")
    try:
        return read(content)
    except InvalidRequest as error:
        own = error.field.removeprefix(f"{table}.")
        raise InvalidRequest(f"{table}.{own}", error.value, error.rule) from error
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(table, "…", f"can't be read: {error}") from error
