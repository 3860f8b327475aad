"""What crosses HTTP: each shape once, for server, client, CLI and SDK.

One module per resource. A shape is a `msgspec.Struct`; its classmethod `of` makes it from a domain value. A
decoder leaves unknown fields aside and fills in defaults, so that a client can read the answers of older and
newer servers. The server is stricter with what it is sent (`muster.api.decoders`).
"""
