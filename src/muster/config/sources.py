"""From three sources to one checked configuration: the file, the environment over it, flags over that."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.config.clusters import cluster
from muster.config.reading import ConfigError, Found, Key, nearest, read
from muster.config.schema import (
    CLASS,
    CLASSES,
    CLUSTER,
    DYNAMODB,
    MAPS,
    PRIVATE,
    RUNNER,
    SECTIONS,
    TEMPLATE,
    TEMPLATE_EC2,
    TEMPLATE_RUNNER,
    TEMPLATES,
    TRUST,
    TRUST_RULE,
    AksConfig,
    Check,
    Config,
    Ec2Config,
    GitHubConfig,
    ProbesConfig,
    ProcessConfig,
    ServerConfig,
)
from muster.domain.deadlines import Limits
from muster.domain.ec2 import EC2, Ec2Spec
from muster.domain.errors import InvalidRequest
from muster.domain.settings import Settings
from muster.domain.template import (
    AKS,
    BOOT_LEAST,
    RESOURCE_CLASSES,
    STALL_LEAST,
    ResourceClass,
    TemplateSpec,
)
from muster.domain.trust import Trust
from muster.domain.workflow import RunnerSpec

ENVIRONMENT: Mapping[str, Key] = {
    "MUSTER_MAX_NODES": ("installation", "max_nodes"),
    "MUSTER_HOST": ("server", "host"),
    "MUSTER_PORT": ("server", "port"),
    "MUSTER_PUBLIC_URL": ("server", "public_url"),
    "MUSTER_DATA_DIR": ("server", "data_dir"),
    "MUSTER_STORE": ("server", "store"),
    "MUSTER_STORE_CONNECTIONS": ("server", "store_connections"),
    "MUSTER_FILES_DIR": ("server", "files_dir"),
    "MUSTER_LOG_FORMAT": ("server", "log_format"),
    "MUSTER_LOG_LEVEL": ("server", "log_level"),
    "MUSTER_PROCESS_CAPACITY": ("process", "capacity"),
    "MUSTER_PROCESS_ISOLATION": ("process", "isolation"),
    "MUSTER_AKS_ENDPOINT": ("aks", "endpoint"),
    "MUSTER_AKS_CREDENTIAL": ("aks", "credential"),
    "MUSTER_PROCESS_DIRECTORY": ("process", "directory"),
    "MUSTER_EC2_REGION": ("ec2", "region"),
    "MUSTER_GITHUB_TOKEN": ("github", "token"),
}
LIMIT = "MUSTER_LIMITS_"
"""Each of [limits] by its name, e.g. MUSTER_LIMITS_STALE_AFTER."""
_NUMBERS = ("max_nodes", "port", "capacity", "store_connections")
BEATS = 3
BEAT_SECONDS = 5.0
PRICED_STALE_AFTER = 60.0
"""On DynamoDB, where a heartbeat is written every 15 s: four of them, as elsewhere."""


def load(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """`flags` are named like the settings of [server], e.g. {"port": 0}; None means not given."""
    found = read(path) if path is not None else {}
    found.update(_environment(environment or {}))
    for name, value in (flags or {}).items():
        if value is not None:
            found["server", name] = Found(value=value, where=f"--{name.replace('_', '-')}")
    return replace(_built(found), path=path)


def _environment(environment: Mapping[str, str]) -> dict[Key, Found]:
    found: dict[Key, Found] = {}
    for variable, key in ENVIRONMENT.items():
        text = environment.get(variable)
        if text:
            number = key[-1] in _NUMBERS and text.isascii() and text.isdigit()
            found[key] = Found(value=int(text) if number else text, where=f"the environment ({variable})")
    for variable in sorted(environment):
        if variable.startswith(LIMIT) and environment[variable]:
            name = variable.removeprefix(LIMIT).lower()
            value = _number(environment[variable])
            found["limits", name] = Found(value=value, where=f"the environment ({variable})")
    return found


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _built(found: Mapping[Key, Found]) -> Config:
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    templates: dict[str, dict[str, Any]] = {}
    trust: dict[str, dict[str, Any]] = {}
    sizes: dict[str, dict[str, Any]] = {}
    for key, each in found.items():
        if key[0] == TEMPLATES:
            _take_template(key, each, templates)
        elif key[0] == TRUST:
            _take_named(key, each, trust, TRUST_RULE)
        elif key[0] == CLASSES:
            _take_named(key, each, sizes, CLASS)
        else:
            _take(key, each, sections)
    classes = _classes(sizes, found)
    server = ServerConfig(**sections["server"])
    priced = (server.store or "").startswith(f"{DYNAMODB}://")
    if priced:
        sections["limits"].setdefault("stale_after", PRICED_STALE_AFTER)
    limits = Limits(**sections["limits"])
    _check_beats(limits, found, priced=priced)
    _check_least(limits, found)
    return Config(
        max_nodes=sections["installation"].get("max_nodes"),
        server=server,
        limits=limits,
        process=ProcessConfig(**sections["process"]),
        ec2=Ec2Config(**sections["ec2"]),
        probes=ProbesConfig(**({} if server.loopback else {"allowed": PRIVATE}) | sections["probes"]),
        github=_github(sections["github"], found),
        trust=tuple(_trust(name, content, found) for name, content in trust.items()),
        aks=AksConfig(**sections["aks"]),
        templates=tuple(_template(name, content, classes, found) for name, content in templates.items()),
    )


def _take(key: Key, found: Found, sections: dict[str, dict[str, Any]]) -> None:
    if key[0] not in SECTIONS:
        known = (*SECTIONS, CLASSES, TEMPLATES, TRUST)
        raise _unknown(key[0], replace(found, where=found.table or found.where), known)
    if len(key) == 1:
        if found.value != {}:
            raise ConfigError(key[0], found.value, f"{key[0]} is a table: write [{key[0]}]", found.where)
        return
    fields = SECTIONS[key[0]]
    if key[:2] in MAPS:
        _take_mapped(key, found, sections[key[0]])
        return
    if len(key) > 2 or key[1] not in fields:  # noqa: PLR2004 — a section and a name
        raise _unknown(".".join(key[1:]), found, fields)
    sections[key[0]][key[1]] = _checked(fields[key[1]], key[1], found)


def _take_mapped(key: Key, found: Found, section: dict[str, Any]) -> None:
    """A value of a table with free names."""
    if len(key) == 2:  # noqa: PLR2004 — a section and a name
        if found.value != {}:
            rule = f"{key[1]} is a table: write [{'.'.join(key)}]"
            raise ConfigError(key[1], found.value, rule, found.where)
        return
    name = ".".join(key[2:])
    check = SECTIONS[key[0]][key[1]]
    section.setdefault(key[1], {})[name] = _checked(check, f"{key[1]}.{name}", found)


def _take_template(key: Key, found: Found, templates: dict[str, dict[str, Any]]) -> None:
    if len(key) > 2 and key[2] == CLUSTER:  # noqa: PLR2004 — templates, its name, the table
        _take_nested(key[3:], found, templates.setdefault(key[1], {}).setdefault(CLUSTER, {}))
        return
    if len(key) > 2 and key[2] in _INNER:  # noqa: PLR2004 — templates, its name, a table in it
        inner = templates.setdefault(key[1], {}).setdefault(key[2], {})
        _take_inner(key, found, inner, _INNER[key[2]])
    else:
        _take_named(key, found, templates, TEMPLATE)


_INNER: Mapping[str, Mapping[str, Check]] = {RUNNER: TEMPLATE_RUNNER, EC2: TEMPLATE_EC2}


def _take_inner(key: Key, found: Found, content: dict[str, Any], known: Mapping[str, Check]) -> None:
    """A setting of a table in a template: [templates.NAME.runner], [templates.NAME.ec2]."""
    if len(key) == 3:  # noqa: PLR2004 — templates, its name, the table
        if found.value != {}:
            rule = f"{key[2]} is a table: write [{'.'.join(key)}]"
            raise ConfigError(key[2], found.value, rule, found.where)
        return
    if len(key) > 4 or key[3] not in known:  # noqa: PLR2004 — … and a field
        raise _unknown(".".join(key[3:]), found, known)
    content[key[3]] = _checked(known[key[3]], key[3], found)


def _take_named(key: Key, found: Found, named: dict[str, dict[str, Any]], known: Mapping[str, Check]) -> None:
    """A setting of a table with a name of its own: [templates.NAME], [trust.NAME]."""
    if len(key) < 3 and found.value != {}:  # noqa: PLR2004 — the table, its name, a field
        rule = f"a {key[0].rstrip('s')} is a table: write [{key[0]}.NAME]"
        raise ConfigError(key[0], found.value, rule, found.where)
    if len(key) == 1:
        return
    content = named.setdefault(key[1], {})
    if len(key) == 2:  # noqa: PLR2004
        return
    if len(key) > 3 or key[2] not in known:  # noqa: PLR2004
        raise _unknown(".".join(key[2:]), found, known)
    content[key[2]] = _checked(known[key[2]], key[2], found)


def _ec2(name: str, content: Mapping[str, Any], found: Mapping[Key, Found]) -> Ec2Spec:
    missing = [field for field in ("image", "subnets") if field not in content]
    place = (TEMPLATES, name, EC2)
    if missing:
        where = next((each.where for key, each in found.items() if key[:3] == place), f"template {name}")
        rule = f"{missing[0]} must be given in [{'.'.join(place)}]"
        raise ConfigError(missing[0], None, rule, where)
    try:
        return Ec2Spec(**content)
    except InvalidRequest as error:
        where = found[*place, error.field].where
        raise ConfigError(error.field, error.value, f"{error.field} {error.rule}", where) from error


def _take_nested(key: Key, found: Found, table: dict[str, Any]) -> None:
    """Back into the table that it came from."""
    if not key:
        if found.value != {}:
            rule = "cluster is a table: write [templates.NAME.cluster]"
            raise ConfigError(CLUSTER, found.value, rule, found.where)
        return
    for name in key[:-1]:
        table = table.setdefault(name, {})
    table[key[-1]] = found.value


def _classes(sizes: Mapping[str, Mapping[str, Any]], found: Mapping[Key, Found]) -> tuple[ResourceClass, ...]:
    for name in sizes:
        if name not in RESOURCE_CLASSES:
            where = next(each.where for key, each in found.items() if key[:2] == (CLASSES, name))
            raise ConfigError(CLASSES, name, nearest(name, tuple(RESOURCE_CLASSES)), where)
    return tuple(replace(RESOURCE_CLASSES[name], **sizes[name]) for name in sorted(sizes))


def _template(
    name: str,
    content: Mapping[str, Any],
    classes: tuple[ResourceClass, ...],
    found: Mapping[Key, Found],
) -> TemplateSpec:
    if EC2 in content:
        content = {"provider": EC2, **content, EC2: _ec2(name, content[EC2], found)}
    try:
        if CLUSTER in content:
            content = {"provider": AKS, **content, CLUSTER: cluster(content[CLUSTER])}
        runner = RunnerSpec(**content.get(RUNNER, {}))
        given = {"provider": "process", **content, RUNNER: runner, "name": name}
        return TemplateSpec(**given, classes=classes)
    except InvalidRequest as error:
        raise _misplaced(error, (TEMPLATES, name), found) from error


def _trust(name: str, content: Mapping[str, Any], found: Mapping[Key, Found]) -> Trust:
    try:
        return Trust(**{"repository": "", **content, "name": name})
    except InvalidRequest as error:
        raise _misplaced(error, (TRUST, name), found) from error


def _misplaced(error: InvalidRequest, table: Key, found: Mapping[Key, Found]) -> ConfigError:
    """Where the named table says what it must not."""
    # `pools[1].count` stands, as far as the reader of the file knows, where the pools stand.
    parts = [part.partition("[")[0] for part in error.field.split(".")]
    named = [(*table, *parts[:length]) for length in range(len(parts), 0, -1)]
    places = [*named, *(key for key in found if key[: len(table)] == table)]
    where = next((found[key].where for key in places if key in found), ".".join(table))
    return ConfigError(error.field, error.value, f"{error.field} {error.rule}", where)


def _github(section: Mapping[str, Any], found: Mapping[Key, Found]) -> GitHubConfig:
    config = GitHubConfig(**section)
    token = found.get(("github", "token"))
    if token is not None and "environment" not in token.where:
        rule = "token must not stand in a file that others read: put it into one of its own, see token_file"
        raise ConfigError("token", "…", rule, token.where)
    given = [name for name in ("app_id", "private_key_file") if section.get(name)]
    if len(given) == 1:
        rule = "app_id and private_key_file must be given together"
        raise ConfigError(given[0], "…", rule, found["github", given[0]].where)
    if given and (config.token or config.token_file):
        rule = "app_id and a token exclude each other: choose as whom to speak to GitHub"
        raise ConfigError("app_id", config.app_id, rule, found["github", "app_id"].where)
    return config


def _checked(check: Check, name: str, found: Found) -> object:
    try:
        return check(name, found.value)
    except InvalidRequest as error:
        raise ConfigError(name, found.value, f"{name} {error.rule}", found.where) from error


def _unknown(name: str, found: Found, known: Mapping[str, object] | tuple[str, ...]) -> ConfigError:
    return ConfigError(name, found.value, nearest(name, tuple(known)), found.where)


LEAST = {"boot": BOOT_LEAST, "stall_after": STALL_LEAST, "probe_every": 1.0, "max_transition": 10.0}
"""Shorter ones would judge before anything can be seen."""


def _check_least(limits: Limits, found: Mapping[Key, Found]) -> None:
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


def _check_beats(limits: Limits, found: Mapping[Key, Found], *, priced: bool) -> None:
    least = PRICED_STALE_AFTER if priced else Settings().flush_every + BEATS * BEAT_SECONDS
    if limits.stale_after < least:
        where = found["limits", "stale_after"].where
        why = "DynamoDB is told of heartbeats every 15 s" if priced else f"one flush and {BEATS} heartbeats"
        rule = f"stale_after must be at least {least:g}: {why}"
        raise ConfigError("stale_after", limits.stale_after, rule, where)
