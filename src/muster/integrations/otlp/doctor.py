"""Check the collector for `muster doctor`: whether it takes an export request without spans."""

from collections.abc import Iterator

import httpx

from muster.domain.errors import MusterError
from muster.integration import Check, Level, Machine
from muster.integrations.otlp.spans import encode
from muster.integrations.otlp.tables import OTLP, OtlpConfig, headers

ADVICE = "start the collector, or correct endpoint and headers_file under [otlp]: see docs/tracing.md"
ANSWER_WITHIN = 5.0


def checks(machine: Machine) -> Iterator[Check]:
    config: OtlpConfig = machine.config.tables[OTLP]
    if config.endpoint is not None:
        trouble = _trouble(config)
        level = Level.WARNING if trouble else Level.OK
        words = trouble or f"{config.url} takes traces"
        yield Check(subject=OTLP, level=level, words=words, advice=ADVICE if trouble else "")


def _trouble(config: OtlpConfig) -> str:
    """Return why the collector can't be used; empty: it can."""
    try:
        own = headers(config)
        body = encode((), resource={"service.name": config.service_name}, version="")
        sent = {**own, "Content-Type": "application/json"}
        response = httpx.post(config.url, content=body, headers=sent, timeout=ANSWER_WITHIN, trust_env=False)
    except MusterError as error:
        return str(error)
    except httpx.HTTPError as error:
        return f"{config.url} can't be reached: {str(error) or type(error).__name__}"
    return "" if response.is_success else f"{config.url} answered {response.status_code}"
