"""Export one trace per operation, as OTLP over HTTP (docs/tracing.md).

    spans      what each commit tells of: claims, launches, boots, commands, whole operations
    encoding   spans as OTLP's JSON                 exporter   the queue and the requests
    tables     the settings [otlp]                  doctor     one empty request

Spans are made from committed records, so a trace shows what truly happened. No other code knows of traces.
"""
