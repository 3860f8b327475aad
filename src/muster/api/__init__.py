"""The HTTP API: routes, access, progress, event streams, problem+json.

    app        puts the parts together           routing   a route is method, path, access, handler
    routes/    one table of routes per noun      reading   bodies and queries, decoded strictly
    openapi    the document, from the tables     findings  what is wrong with an input, in words
    access     who is asking                     problems  errors as RFC 9457, from one table
    bounds     how much may be sent              beats     the agents' hot path, in front of everything
    streams    server-sent events                metrics   what an operator alarms on
    files      archives and results on disk      listening the socket, and a stop that drains

Owns who may do what; `muster.wire` owns the shapes. Refuses to decide anything: that is the desk's, the
enrolment's and the domain's.
"""

from muster.api.app import Api, ApiSettings, create_app

__all__ = ["Api", "ApiSettings", "create_app"]
