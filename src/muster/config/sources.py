"""From three sources to one checked configuration: the file, the environment over it, flags over that."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from muster.config import values
from muster.config.schema import (
    CLASS,
    CLASSES,
    DEFAULT_PROVIDER,
    DYNAMODB,
    PRIVATE,
    SECTIONS,
    TEMPLATE,
    TEMPLATES,
    Config,
    ProbesConfig,
    ServerConfig,
)
from muster.config.settings_file import (
    ConfigError,
    ErrorCollector,
    Key,
    SourcedValue,
    UnknownSetting,
    nearest,
    read,
)
from muster.config.tables import Table, TemplateTable
from muster.config.values import Check
from muster.discovery import Installed, installed
from muster.domain import pace
from muster.domain.deadlines import Limits
from muster.domain.errors import InvalidRequest
from muster.domain.template import (
    BOOT_LEAST,
    RESOURCE_CLASSES,
    STALL_LEAST,
    ResourceClass,
    Runtime,
    TemplateSpec,
)
from muster.domain.terminal import ShellRules

ENVIRONMENT: Mapping[str, Key] = {
    "MUSTER_MAX_NODES": ("installation", "max_nodes"),
    **{f"MUSTER_{key.upper()}": ("server", key) for key in SECTIONS["server"]},
}
"""Of the core. An integration declares its own with its table."""
LIMIT = "MUSTER_LIMITS_"
"""Each of [limits] by its name, e.g. MUSTER_LIMITS_STALE_AFTER."""
PRICED_STALE_AFTER = 60.0
"""On DynamoDB, where a heartbeat is written every 15 s: four of them, as elsewhere."""


def load(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Load the settings. `flags` are named like the settings of [server], e.g. {"port": 0}; None means not
    given."""
    known = installed()
    found = read(path) if path is not None else {}
    found.update(_environment(environment or {}, known.tables))
    for name, value in (flags or {}).items():
        if value is not None:
            found["server", name] = SourcedValue(value=value, where=f"--{name.replace('_', '-')}")
    return _built(found, known, path)


def _environment(environment: Mapping[str, str], tables: Mapping[str, Table]) -> dict[Key, SourcedValue]:
    variables = dict(ENVIRONMENT)
    for name, table in tables.items():
        for key in (*table.environment, *table.secret):
            variables[table.variable(name, key)] = (name, key)
    for variable in sorted(environment):
        if variable.startswith(LIMIT):
            variables[variable] = ("limits", variable.removeprefix(LIMIT).lower())
    return {
        key: SourcedValue(value=environment[variable], where=f"the environment ({variable})", text=True)
        for variable, key in variables.items()
        if environment.get(variable)
    }


def _number(text: str) -> object:
    try:
        return int(text) if text.isascii() and text.isdigit() else float(text)
    except ValueError:
        return text


def _built(found: Mapping[Key, SourcedValue], known: Installed, path: Path | None) -> Config:
    schema = _schema(known)
    sections: dict[str, dict[str, Any]] = {name: {} for name in schema}
    boots = {f"boot_{name}": name for name in known.runtimes}
    wrong = ErrorCollector()
    for key, each in found.items():
        with wrong.gathered():
            if key[0] in known.broken:
                continue  # no integration can check it; a template that uses it is refused
            if key[0] not in schema:
                raise _unknown(key[0], replace(each, where=each.table or each.where), schema)
            if key[0] in known.tables:
                _check_secret(key, each, known.tables[key[0]])
            if key[0] == "limits" and key[1:2] and key[1] in boots:
                runtimes = sections["limits"].setdefault("boot_runtimes", {})
                runtimes[boots[key[1]]] = _checked(values.seconds, key[1], each)
            else:
                _take(key, 1, each, schema[key[0]], sections[key[0]])
    classes: tuple[ResourceClass, ...] = ()
    with wrong.gathered():
        classes = _classes(sections[CLASSES], found)
    server = ServerConfig(**sections["server"])
    priced = (server.store or "").startswith(f"{DYNAMODB}://")
    sections["limits"].setdefault("stale_after", _stale_after(sections["limits"], priced=priced))
    limits = Limits(**sections["limits"], attach_runtimes=known.attach_timeouts)
    for check in (partial(_check_beats, priced=priced), _check_least):
        with wrong.gathered():
            check(limits, found)
    tables: dict[str, Any] = {}
    for name, table in known.tables.items():
        with wrong.gathered():
            tables[name] = _table(name, table, sections[name], found, wrong)
    specs: list[TemplateSpec] = []
    for name, content in sections[TEMPLATES].items():
        # What values mean together is only looked at once each of them can be used.
        if not wrong.values_of(f"{TEMPLATES}.{name}"):
            with wrong.gathered():
                specs.append(_template(name, content, classes, found, known))
    wrong.raise_any()
    hidden = [path, server.files_dir]
    for name, table in known.tables.items():
        every = tables[name] if table.named else (tables[name],)
        hidden += [getattr(each, key) for each in every for key in table.private]
    return Config(
        path=path,
        max_nodes=sections["installation"].get("max_nodes"),
        server=server,
        limits=limits,
        probes=ProbesConfig(**({} if server.loopback else {"allowed": PRIVATE}) | sections["probes"]),
        shells=ShellRules(**sections["shells"]),
        tables=tables,
        private=tuple(each.absolute() for each in hidden if each is not None),
        templates=tuple(specs),
    )


@dataclass(frozen=True, slots=True)
class _Named:
    """Tables with free names: [templates.NAME]."""

    keys: "_Schema"


@dataclass(frozen=True, slots=True)
class _Map:
    """A table with free names, and the check of its values."""

    check: Check


@dataclass(frozen=True, slots=True)
class _Nested:
    """A value, or a table to any depth. The class of the outer table checks what is inside."""

    check: Check | None = None
    """None: it must be a table."""


_Schema = Mapping[str, Any]
"""By name: the check of a value, or what may be in a table."""


def _schema(known: Installed) -> _Schema:
    template: dict[str, Any] = {**TEMPLATE}
    for part in known.template_tables.values():
        nested = part.read is not None
        template[part.name] = {key: _Nested(each) if nested else each for key, each in part.keys.items()}
    tables: dict[str, Any] = {}
    for name, table in known.tables.items():
        keys: dict[str, Any] = {**table.keys}
        keys |= {key: _Map(table.keys[key]) for key in table.maps}
        keys |= {key: _Nested() for key in table.free}
        tables[name] = _Named(keys) if table.named else keys
    return {**SECTIONS, CLASSES: _Named(CLASS), TEMPLATES: _Named(template), **tables}


def _take(key: Key, depth: int, found: SourcedValue, schema: Any, content: dict[str, Any]) -> None:
    """Put a setting into the content of the table `key[:depth]`, which the schema describes."""
    rest, own = key[depth:], key[depth - 1]
    if isinstance(schema, _Named) and len(rest) < 2 and found.value != {}:  # noqa: PLR2004 — a name and a key
        rule = f"a {own.rstrip('s')} is a table: write [{own}.NAME]"
        raise ConfigError(own, found.value, rule, found.where)
    if not rest and found.value != {}:
        rule = f"{own} is a table: write [{'.'.join(key)}]"
        raise ConfigError(own, found.value, rule, found.where)
    if not rest:
        return
    name, path = rest[0], ".".join(rest)
    match schema:
        case _Named(keys):
            _take(key, depth + 1, found, keys, content.setdefault(name, {}))
        case _Map(of_value):
            content[path] = _checked(of_value, f"{own}.{path}", found)
        case _Nested():
            for each in rest[:-1]:
                content = content.setdefault(each, {})
            content[rest[-1]] = found.value
        case _ if name not in schema:
            raise _unknown(name, found, schema)
        case _:
            inner = schema[name]
            check: Any = inner.check if isinstance(inner, _Nested) and len(rest) == 1 else inner
            if not callable(check):
                _take(key, depth + 1, found, inner, content.setdefault(name, {}))
            elif len(rest) == 1:
                content[name] = _checked(check, name, found)
            else:
                raise _unknown(path, found, schema)


def _check_secret(key: Key, found: SourcedValue, table: Table) -> None:
    """Refuse a secret that stands in the file."""
    if key[1:2] and key[1] in table.secret and not found.text:
        rule = f"{key[1]} must not be in this file: put it into a file of its own"
        more = f", see {key[1]}_file" if f"{key[1]}_file" in table.keys else " or the environment"
        raise ConfigError(key[1], "…", f"{rule}{more}", found.where)


def _table(
    name: str,
    table: Table,
    content: Mapping[str, Any],
    found: Mapping[Key, SourcedValue],
    wrong: ErrorCollector,
) -> object:
    """Return the value of an integration's table, or of each of its named tables."""
    if not table.named:
        return _value(table, (name,), content, found)
    rules: list[object] = []
    for each, inner in content.items():
        with wrong.gathered():
            rules.append(_value(table, (name, each), {**inner, "name": each}, found))
    return tuple(rules)


def _value(table: Table, place: Key, content: Mapping[str, Any], found: Mapping[Key, SourcedValue]) -> object:
    try:
        value = table.kind(**content)
        table.check(value)
    except InvalidRequest as error:
        raise _misplaced(error, place, found) from error
    return value


def _part(
    table: TemplateTable[Any], place: Key, content: Mapping[str, Any], found: Mapping[Key, SourcedValue]
) -> Any:
    """Return the value of a table in a template."""
    missing = [key for key in table.needs if key not in content]
    if missing:
        where = next((each.where for key, each in found.items() if key[:3] == place), ".".join(place))
        rule = f"{missing[0]} must be given in [{'.'.join(place)}]"
        raise ConfigError(missing[0], None, rule, where)
    try:
        return table.kind(**content) if table.read is None else table.read(content)
    except InvalidRequest as error:
        # Some name themselves with their table, for the API.
        own = error.field.removeprefix(f"{table.name}.")
        raise _misplaced(InvalidRequest(own, error.value, error.rule), place, found) from error


def _classes(
    sizes: Mapping[str, Mapping[str, Any]], found: Mapping[Key, SourcedValue]
) -> tuple[ResourceClass, ...]:
    for name in sizes:
        if name not in RESOURCE_CLASSES:
            where = next(each.where for key, each in found.items() if key[:2] == (CLASSES, name))
            raise ConfigError(CLASSES, name, nearest(name, tuple(RESOURCE_CLASSES)), where)
    return tuple(replace(RESOURCE_CLASSES[name], **sizes[name]) for name in sorted(sizes))


def _template(
    name: str,
    content: Mapping[str, Any],
    classes: tuple[ResourceClass, ...],
    found: Mapping[Key, SourcedValue],
    known: Installed,
) -> TemplateSpec:
    given: dict[str, Any] = {"provider": DEFAULT_PROVIDER, "name": name, "classes": classes}
    tables: dict[str, Any] = {}
    for table in known.template_tables.values():
        if table.name in content:
            tables[table.name] = _part(table, (TEMPLATES, name, table.name), content[table.name], found)
            if table.needs and table.provider:
                given["provider"] = table.provider
    given |= {key: value for key, value in content.items() if key in TEMPLATE} | {"tables": tables}
    _check_names(name, given, found, known)
    wrong = ErrorCollector()
    while True:
        try:
            spec = TemplateSpec(**given)
            whole = {each.name: each.whole(spec) for each in known.template_tables.values()}
        except InvalidRequest as error:
            wrong.add(_misplaced(error, (TEMPLATES, name), found))
            # Go on without it, to see what else is wrong.
            if given.pop(error.field, None) is None or error.field in _NEEDED:
                wrong.raise_any()
        else:
            wrong.raise_any()
            return replace(spec, tables=whole)


def _check_names(
    template: str, given: Mapping[str, Any], found: Mapping[Key, SourcedValue], known: Installed
) -> None:
    """Check that an installed integration brings the provider and the runtime."""
    for key, names in (("provider", known.providers), ("runtime", (*Runtime, *known.runtimes))):
        name = given.get(key, names[0])
        if name in known.broken:
            where = found[TEMPLATES, template, key].where
            raise ConfigError(key, name, f"{key} {name} is not available: {known.broken[name]}", where)
        if name not in names and not (key == "provider" and known.in_a_family(name)):
            close = nearest(name, names)
            advice = (
                "" if "did you mean" in close else f"; a package may bring it: `pip install muster-{name}`"
            )
            where = found[TEMPLATES, template, key].where
            raise ConfigError(key, name, f"there is no {key} {name}{close.partition(name)[2]}{advice}", where)


_NEEDED = ("name", "provider", "classes")
"""Without these a template can't even be looked at."""


def _misplaced(error: InvalidRequest, table: Key, found: Mapping[Key, SourcedValue]) -> ConfigError:
    """Return the error with the place of the setting that caused it."""
    # `pools[1].count` stands, as far as the reader of the file knows, where the pools stand.
    parts = [part.partition("[")[0] for part in error.field.split(".")]
    named = [(*table, *parts[:length]) for length in range(len(parts), 0, -1)]
    places = [*named, *(key for key in found if key[: len(table)] == table)]
    where = next((found[key].where for key in places if key in found), ".".join(table))
    return ConfigError(error.field, error.value, f"{error.field} {error.rule}", where)


def _checked(check: Check, name: str, found: SourcedValue) -> object:
    try:
        return check(name, found.value)
    except InvalidRequest as error:
        if found.text and isinstance(found.value, str):
            return _checked(check, name, replace(found, value=_number(found.value), text=False))
        raise ConfigError(name, found.value, f"{name} {error.rule}", found.where) from error


def _unknown(name: str, found: SourcedValue, known: _Schema) -> UnknownSetting:
    return UnknownSetting(name, found.value, nearest(name, tuple(known)), found.where)


LEAST = {
    "beat_seconds": 1.0,
    "boot": BOOT_LEAST,
    "stall_after": STALL_LEAST,
    "probe_every": 1.0,
    "max_transition": 10.0,
}
"""Shorter ones would judge before anything can be seen."""


def _check_least(limits: Limits, found: Mapping[Key, SourcedValue]) -> None:
    for name, least in LEAST.items():
        if getattr(limits, name) < least:
            where = found["limits", name].where
            rule = f"{name} must be at least {least:g}"
            raise ConfigError(name, getattr(limits, name), rule, where)
    if limits.probe_timeout > limits.probe_every:
        key = ("limits", "probe_timeout")
        where = (found[key] if key in found else found["limits", "probe_every"]).where
        rule = f"probe_timeout must not be above probe_every ({limits.probe_every:g})"
        raise ConfigError("probe_timeout", limits.probe_timeout, rule, where)


def _stale_after(given: Mapping[str, Any], *, priced: bool) -> float:
    """Return how long silence is allowed: four heartbeat intervals."""
    beat = float(given.get("beat_seconds", Limits().beat_seconds))
    return max(4 * beat, pace.stale_after(beat), PRICED_STALE_AFTER if priced else 0.0)


def _check_beats(limits: Limits, found: Mapping[Key, SourcedValue], *, priced: bool) -> None:
    if limits.beat_seconds > pace.INTERVAL_MOST:
        rule = f"beat_seconds must be at most {pace.INTERVAL_MOST:g}"
        where = found["limits", "beat_seconds"].where
        raise ConfigError("beat_seconds", limits.beat_seconds, rule, where)
    beats = pace.stale_after(limits.beat_seconds)
    least = max(PRICED_STALE_AFTER, beats) if priced else beats
    if limits.stale_after < least:
        where = found["limits", "stale_after"].where
        why = (
            "heartbeats are written to DynamoDB every 15 s"
            if least > beats
            else f"one flush and {pace.BEATS_MISSED} heartbeats of {limits.beat_seconds:g} s"
        )
        rule = f"stale_after must be at least {least:g}: {why}"
        raise ConfigError("stale_after", limits.stale_after, rule, where)
