"""The parts of this integration, put together for a server."""

import logging
import socket

import muster
from muster.domain import traces
from muster.integration import Parts, Site
from muster.integrations.otlp.exporter import Exporter
from muster.integrations.otlp.tables import OTLP, OtlpConfig, headers
from muster.ports.tracing import CURRENT


async def connect(site: Site) -> Parts:
    """Start to export. Raises InvalidRequest for headers that can't be read."""
    config: OtlpConfig = site.tables[OTLP]
    exporter = Exporter(
        config.url,
        site.store,
        site.clock,
        headers=headers(config),
        resource={
            "service.name": config.service_name,
            "service.version": muster.__version__,
            "service.instance.id": socket.gethostname(),
            "muster.installation_id": site.installation_id,
        },
        sample=config.sample,
    )
    exporter.start()
    shown = TraceIds()
    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(shown)

    async def close() -> None:
        for handler in handlers:
            handler.removeFilter(shown)
        await exporter.close()

    return Parts(observers=(exporter.saw,), close=close)


class TraceIds(logging.Filter):
    """Adds the ids of trace and span to the log lines of work that has them."""

    def filter(self, record: logging.LogRecord) -> bool:
        span = traces.parse(CURRENT.get())
        if span is not None:
            record.trace_id, record.span_id = span.trace_id, span.span_id
        return True
