"""Call DynamoDB and SQS: one client each, and the translation of what goes wrong."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from muster import __version__
from muster.aws import verifies
from muster.domain.errors import InvalidRequest, MusterError, StoreUnavailable

ATTEMPTS = 5
SQS_ATTEMPTS = 2
"""A queue brings hints: one repeat, for a connection that went stale."""
CONNECT_SECONDS = 3.0
READ_SECONDS = 5.0
ANSWER_SECONDS = 15.0
"""For a call and all of its repeats, whatever the store does or doesn't answer."""
CONNECTIONS = 64
SPARE = 8
"""Of these, for single conditional writes: renewals, duties and heartbeats wait for no flood of work."""
WAITING_SECONDS = 30.0
"""Seconds to wait for a connection. After that the caller is told that the store doesn't keep up."""
SCHEME = "dynamodb"
_RULE = "must look like dynamodb://TABLE?region=eu-central-1"
_ENDPOINTS = ("endpoint", "dynamodb_endpoint", "sqs_endpoint")
_TABLE = re.compile(r"[A-Za-z0-9_-]{3,64}")
"""What both a table and, with a class behind it, a queue may be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Which table, and where. Credentials come from where the AWS SDK finds them, never from here."""

    table: str
    region: str
    endpoint: str | None = None
    """Of both services; None: AWS's own."""
    dynamodb_endpoint: str | None = None
    sqs_endpoint: str | None = None
    """Of one service, before `endpoint`: private links have one for each."""

    @classmethod
    def of(cls, url: str) -> "Location":
        parts = urlsplit(url)
        given = parse_qs(parts.query, keep_blank_values=True)
        if parts.scheme != SCHEME or not parts.netloc or parts.path not in ("", "/"):
            raise InvalidRequest("store", url, _RULE)
        unknown = sorted(set(given) - {"region", *_ENDPOINTS})
        if unknown:
            known = " and ".join((", ".join(("region", *_ENDPOINTS[:-1])), _ENDPOINTS[-1]))
            raise InvalidRequest("store", url, f"{_RULE}; it knows {known}, not {unknown[0]}")
        if not given.get("region", [""])[-1]:
            raise InvalidRequest("store", url, f"{_RULE}: the region is missing")
        if not _TABLE.fullmatch(parts.netloc):
            raise InvalidRequest(
                "store", url, f"{_RULE}: a table's name is 3 to 64 letters, digits, hyphens and underscores"
            )
        endpoints = {name: given.get(name, [""])[-1] or None for name in _ENDPOINTS}
        for name, endpoint in endpoints.items():
            if endpoint is not None and not endpoint.startswith(("http://", "https://")):
                raise InvalidRequest("store", url, f"{_RULE}: {name} begins with http:// or https://")
        return cls(table=parts.netloc, region=given["region"][-1], **endpoints)

    @property
    def url(self) -> str:
        """Return the address that names this location."""
        named = {"region": self.region, **{each: getattr(self, each) for each in _ENDPOINTS}}
        query = urlencode({name: value for name, value in named.items() if value}, safe=":/")
        return f"{SCHEME}://{self.table}?{query}"

    def endpoint_of(self, service: str) -> str | None:
        own = self.dynamodb_endpoint if service == "dynamodb" else self.sqs_endpoint
        return own or self.endpoint


@cache
def _session() -> Any:
    """Return one session for all clients: it remembers the service descriptions, which take long to read."""
    from aiobotocore.session import get_session  # noqa: PLC0415 — an extra, wanted by few

    return get_session()


class Refused(MusterError):
    """A call whose condition did not hold. `reasons` has one entry per item of a transaction."""

    def __init__(self, code: str, reasons: tuple[tuple[str, Mapping[str, Any] | None], ...]) -> None:
        self.reasons = reasons
        super().__init__(code)


class Malformed(MusterError):
    """A call that AWS finds senseless: a bug, and no repeat can help."""


class Missing(StoreUnavailable):
    """There is no such table or queue."""


class AwsClient:
    def __init__(self, location: Location, clients: AsyncExitStack, dynamodb: Any, sqs: Any) -> None:
        self.location = location
        self._clients = clients
        self._dynamodb = dynamodb
        self._sqs = sqs
        self._usual = asyncio.Semaphore(CONNECTIONS - SPARE)

    @classmethod
    async def open(cls, location: Location, *, attempts: int = ATTEMPTS) -> "AwsClient":
        try:
            from aiobotocore.config import AioConfig  # noqa: PLC0415 — an extra, wanted by few
        except ImportError as error:
            raise StoreUnavailable(
                "cannot use DynamoDB: the AWS SDK is not installed; run: pip install 'muster-compute[aws]'"
            ) from error

        def client(service: str, attempts: int) -> Any:
            config = AioConfig(
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                max_pool_connections=CONNECTIONS,
                # What we send is made in one place and typed; checking it again is a third of a call's cost.
                parameter_validation=False,
                user_agent=f"muster/{__version__}",
            )
            where = location.endpoint_of(service)
            return _session().create_client(
                service,
                region_name=location.region,
                endpoint_url=where,
                config=config,
                verify=verifies(where),
            )

        clients = AsyncExitStack()
        try:
            dynamodb = await clients.enter_async_context(client("dynamodb", attempts))
            sqs = await clients.enter_async_context(client("sqs", min(attempts, SQS_ATTEMPTS)))
        except Exception as error:
            await clients.aclose()
            raise translate_error(error, location) from error
        return cls(location, clients, dynamodb, sqs)

    def at(self, location: Location) -> "AwsClient":
        """Return the same clients for another table. The one who opened them closes them."""
        return AwsClient(location, AsyncExitStack(), self._dynamodb, self._sqs)

    async def close(self) -> None:
        await self._clients.aclose()

    async def dynamodb(self, verb: str, **given: Any) -> Mapping[str, Any]:
        if verb == "update_item":
            return await self._bounded(verb, given)
        try:
            async with asyncio.timeout(WAITING_SECONDS):
                await self._usual.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(
                f"cannot use the store {self.location.table}: all {CONNECTIONS - SPARE} connections have been"
                f" busy for {WAITING_SECONDS:g} s; try again later"
            ) from error
        try:
            return await self._bounded(verb, given)
        finally:
            self._usual.release()

    async def _bounded(self, verb: str, given: dict[str, Any]) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._call(self._dynamodb, verb, given)
        except TimeoutError as error:
            told = TimeoutError(f"none within {ANSWER_SECONDS:g} s")
            raise translate_error(told, self.location) from error

    async def sqs(self, verb: str, **given: Any) -> Mapping[str, Any]:
        return await self._call(self._sqs, verb, given)

    async def _call(self, client: Any, verb: str, given: dict[str, Any]) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = await getattr(client, verb)(**given)
        except Exception as error:
            raise translate_error(error, self.location) from error
        return answer


_CANCELED = "TransactionCanceledException"
_REFUSED = ("ConditionalCheckFailedException", _CANCELED, "TransactionConflictException")
_MISSING = (
    "ResourceNotFoundException",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
)
_FORBIDDEN = (
    "AccessDeniedException",
    "AccessDenied",
    "AuthFailure",
    "UnrecognizedClientException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "InvalidSignatureException",
    "NotAuthorized",
    "OptInRequired",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "ExpiredTokenException",
    "ExpiredToken",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
)
_SENSELESS = (
    "ValidationException",
    "ValidationError",
    "SerializationException",
    "IdempotentParameterMismatchException",
    "InvalidParameterCombination",
    "InvalidParameterValue",
    "MissingParameter",
)


def translate_error(error: Exception, location: Location) -> Exception:
    """Return an error that the caller can act on. Errors that are not the SDK's stay as they are."""
    response = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return _of_answer(response, location)
    if type(error).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp") or isinstance(
        error, (OSError, TimeoutError)
    ):
        if _about_credentials(error):
            return StoreUnavailable(
                f"cannot use the store {location.table}: there are no AWS credentials to use ({error}); give"
                " the machine a role, or set a profile or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                why="there are no AWS credentials to use",
            )
        where = location.endpoint_of("dynamodb") or f"AWS in {location.region}"
        return StoreUnavailable(
            f"cannot reach the store {location.table}: {where} gave no answer ({error});"
            " check the network, the region, the endpoint and the credentials"
        )
    return error


def _about_credentials(error: Exception) -> bool:
    from botocore import exceptions as told  # noqa: PLC0415 — an extra, wanted by few

    return isinstance(
        error,
        (
            told.NoCredentialsError,
            told.PartialCredentialsError,
            told.CredentialRetrievalError,
            told.ProfileNotFound,
            told.TokenRetrievalError,
            told.SSOError,
        ),
    )


def _of_answer(response: Mapping[str, Any], location: Location) -> Exception:
    code = str(response["Error"].get("Code", ""))
    message = str(response["Error"].get("Message", ""))
    reasons = _reasons(code, response)
    if code in _SENSELESS or (code == _CANCELED and any(each in _SENSELESS for each, _ in reasons)):
        return Malformed(
            f"cannot use the store {location.table}: AWS finds a call senseless ({code}: {message});"
            " this is a bug of Muster: please report it"
        )
    if code in _REFUSED:
        return Refused(code, reasons)
    if code in _MISSING:
        return Missing(
            f"cannot use the store {location.table}: there is no such table or queue in {location.region};"
            f" run: muster store create --store '{location.url}'",
            why="its table or a queue of it is missing",
        )
    if code in _FORBIDDEN:
        return StoreUnavailable(
            f"cannot use the store {location.table}: AWS refused the credentials ({code});"
            " check them, the clock, and that they carry what `muster store policy` prints",
            why=f"AWS refused its credentials ({code})",
        )
    return StoreUnavailable(
        f"cannot use the store {location.table} at present: AWS answered {code}; it is tried again",
        why=f"AWS answered {code}",
    )


def _reasons(code: str, response: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any] | None], ...]:
    if code != _CANCELED:
        return (((code.removesuffix("Exception")), response.get("Item")),)
    found = response.get("CancellationReasons", ())
    return tuple((str(each.get("Code", "None")), each.get("Item")) for each in found)
