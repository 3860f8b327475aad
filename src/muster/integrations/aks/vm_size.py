"""Azure's names for machine sizes: how they are made up, and which of them can be known without asking.

Owns the table of series. A name that no series has is refused before anything is called; whether a region
offers a size that there is, only Azure knows. Series newer than the table are let through: a table that must
be complete would refuse tomorrow's machines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from muster.domain.errors import InvalidRequest

EXAMPLE = "Standard_D4s_v5"
SIZE_MAX = 64
FORESEEN = 2
"""So many versions after the newest that we know may come before we do."""
RULE = f"must be the name of a size, like {EXAMPLE}: tier, family, vCPUs, features, version"
_SHAPE = re.compile(
    r"(?P<tier>Standard|Basic)_(?P<family>[A-Z]{1,3})(?P<number>\d{1,4})(?:-(?P<active>\d{1,3}))?"
    r"(?P<features>[a-z]{0,6})(?P<extra>(?:_(?!v\d|Promo)[A-Za-z0-9]{1,16}){0,3})"
    r"(?:_v(?P<version>\d{1,2}))?(?:_Promo)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    family: str
    numbers: tuple[int, ...]
    """vCPUs, or, in the oldest ones, just numbers."""
    features: str = ""
    first: int = 1
    """Version; 1 is not written."""
    last: int = 1
    extra: str = ""
    """A pattern of what may stand between features and version: an accelerator, a class of memory."""
    vcpus: tuple[int, ...] = ()
    """For each number, where that isn't the same."""


_OLD = (1, 2, 3, 4, 5, 11, 12, 13, 14, 15)
_OLD_VCPUS = (1, 2, 4, 8, 16, 2, 4, 8, 16, 20)
_ACCELERATOR = r"(?:_[A-Za-z0-9]+){0,2}"
_SERIES = (
    _Series(family="A", numbers=tuple(range(12)), vcpus=(1, 1, 2, 4, 8, 2, 4, 8, 8, 16, 8, 16)),
    _Series(family="A", numbers=(1, 2, 4, 8), features="m", first=2, last=2),
    _Series(family="B", numbers=(1, 2, 4, 8, 12, 16, 20), features="lms"),
    _Series(family="B", numbers=(2, 4, 8, 16, 32), features="alpst", first=2, last=2),
    _Series(family="D", numbers=_OLD, last=2, vcpus=_OLD_VCPUS),
    _Series(family="DS", numbers=_OLD, last=2, vcpus=_OLD_VCPUS),
    _Series(family="D", numbers=(2, 4, 8, 16, 32, 48, 64, 96, 128, 192), features="adlnps", first=3, last=7),
    _Series(
        family="DC", numbers=(1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128), features="adeis", last=6, extra="_cc"
    ),
    _Series(
        family="E",
        numbers=(2, 4, 8, 16, 20, 32, 48, 64, 80, 96, 104, 112, 128, 192),
        features="abdinps",
        first=3,
        last=7,
    ),
    _Series(
        family="EC", numbers=(2, 4, 8, 16, 20, 32, 48, 64, 96, 128), features="adeis", last=6, extra="_cc"
    ),
    _Series(family="F", numbers=(1, 2, 4, 8, 16), features="s"),
    _Series(family="F", numbers=(2, 4, 8, 16, 32, 48, 64, 72, 80), features="adlmns", first=2, last=7),
    _Series(family="FX", numbers=(2, 4, 8, 12, 16, 24, 32, 36, 48, 64, 96), features="dms", last=2),
    _Series(family="G", numbers=(1, 2, 3, 4, 5), vcpus=(2, 4, 8, 16, 32)),
    _Series(family="GS", numbers=(1, 2, 3, 4, 5), vcpus=(2, 4, 8, 16, 32)),
    _Series(family="H", numbers=(8, 16), features="mr"),
    _Series(family="HB", numbers=(60, 120, 176, 368), features="rs", last=5),
    _Series(family="HC", numbers=(44,), features="rs"),
    _Series(family="HX", numbers=(176,), features="rs"),
    _Series(family="L", numbers=(2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 96), features="aos", last=4),
    _Series(
        family="M",
        numbers=(8, 12, 16, 24, 32, 48, 64, 96, 128, 176, 192, 208, 416, 624, 832, 896, 1792),
        features="bdilmstx",
        last=3,
        extra=r"_\d{1,2}",
    ),
    _Series(
        family="NC",
        numbers=(4, 6, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 144, 256, 288, 320, 324),
        features="adilrs",
        last=6,
        extra=_ACCELERATOR,
    ),
    _Series(family="NCC", numbers=(40,), features="ads", first=5, last=5, extra=_ACCELERATOR),
    _Series(family="ND", numbers=(6, 12, 24, 40, 96, 128), features="aimrs", last=6, extra=_ACCELERATOR),
    _Series(family="NG", numbers=(8, 16, 32), features="adms", extra=_ACCELERATOR),
    _Series(family="NP", numbers=(10, 20, 40), features="s"),
    _Series(
        family="NV",
        numbers=(4, 6, 8, 12, 16, 18, 20, 24, 28, 30, 32, 36, 40, 48, 72),
        features="admsw",
        last=5,
        extra=_ACCELERATOR,
    ),
    _Series(family="PB", numbers=(6,), features="s"),
)
_COMMON = ("s", "as", "ds", "ads", "ps", "ms", "")
"""What is likely meant; a suggestion need not be complete."""
_ACCELERATED = ("NC4as_T4_v3", "NC24ads_A100_v4", "NC40ads_H100_v5", "NV36ads_A10_v5", "ND96isr_H100_v5")


def check(field: str, value: object) -> str:
    """Raises InvalidRequest: no series has such a size. Names the nearest."""
    if isinstance(value, str) and len(value) <= SIZE_MAX:
        found = _SHAPE.fullmatch(value)
        wrong = "" if found is None else _wrong(found)
        if found is not None and not wrong:
            return value
        near = _nearest(value)
        hint = f"; did you mean {near}?" if near else ""
        raise InvalidRequest(field, value, f"{wrong or RULE}{hint}")
    raise InvalidRequest(field, value, RULE)


def vcpus(size: str) -> int | None:
    """What a machine of that size counts for in a quota. None: of no series that we know."""
    found = _SHAPE.fullmatch(size)
    series = None if found is None else next((each for each in _series(found) if _has(each, found)), None)
    if found is None or series is None:
        return None
    number = int(found["number"])
    return series.vcpus[series.numbers.index(number)] if series.vcpus else number


def quota_family(size: str) -> str:
    """The family that a quota is for, as its name says it (standardESv5Family) but for case and signs."""
    found = _SHAPE.fullmatch(size)
    if found is None:
        return ""
    version = f"v{found['version']}" if found["version"] else ""
    return normal(f"{found['family']}{found['features']}{version}{found['extra']}")


def normal(family: str) -> str:
    """A quota's name without what all of them have."""
    word = re.sub(r"[^a-z0-9]", "", family.lower())
    return word.removeprefix("standard").removesuffix("vcpus").removesuffix("cores").removesuffix("family")


def _version(found: re.Match[str]) -> int:
    return int(found["version"] or 1)


def _series(found: re.Match[str]) -> list[_Series]:
    """Those of that family whose versions reach so far."""
    of_family = [each for each in _SERIES if each.family == found["family"]]
    return [each for each in of_family if each.first <= _version(found) <= each.last]


def _has(series: _Series, found: re.Match[str]) -> bool:
    return (
        int(found["number"]) in series.numbers
        and (found["active"] is None or int(found["active"]) < int(found["number"]))
        and all(letter in series.features for letter in found["features"])
        and (not found["extra"] or re.fullmatch(series.extra, found["extra"]) is not None)
    )


def _wrong(found: re.Match[str]) -> str:
    """What no series has; "" if one has it, or may have it by now."""
    family, version = found["family"], _version(found)
    known = [each for each in _SERIES if each.family == family]
    if not known:
        return f"there are no sizes of family {family}"
    if not _series(found):
        newest = max(each.last for each in known)
        if newest < version <= newest + FORESEEN:
            return ""
        return f"there is no version {version} of family {family}"
    if any(_has(each, found) for each in _series(found)):
        return ""
    return f"there is no such size in version {version} of family {family}"


def _nearest(value: str) -> str | None:
    given = value.strip().lower()
    names = {name.lower(): name for name in _names()}
    close = get_close_matches(given, names, n=1, cutoff=0.8) or get_close_matches(
        f"standard_{given}", names, n=1, cutoff=0.8
    )
    return names[close[0]] if close else None


def _names() -> Iterator[str]:
    for series in _SERIES:
        features = [each for each in _COMMON if all(letter in series.features for letter in each)]
        for version in range(series.first, series.last + 1):
            ending = f"_v{version}" if version > 1 else ""
            for number in series.numbers:
                yield from (f"Standard_{series.family}{number}{each}{ending}" for each in features)
    yield from (f"Standard_{each}" for each in _ACCELERATED)
