"""The HTTP API: routes, access, progress, event streams, problem+json.

    app           puts the parts together           router       routes: method, path, access, handler
    routes/       one table of routes per noun      decoders     bodies and queries, decoded strictly
    openapi       the document, from the tables     input_errors the errors of an input, in words
    access        the caller of a request           problems     errors as RFC 9457, from one table
    confinement   what a workflow may reach         middleware   limits of requests, default headers
    streams       server-sent events                feed_pages   pages of the event feed, encoded once
    beats         the agents' hot path              metrics      what an operator sets alarms on
    files         archives and results on disk      server       the socket, and a stop that drains

This package owns who may do what. `muster.wire` owns the shapes. Decisions belong to the desk,
the enrolment and the domain.
"""

from muster.api.app import Api, ApiSettings, create_app

__all__ = ["Api", "ApiSettings", "create_app"]
