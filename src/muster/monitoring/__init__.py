"""What to watch: alert rules for Prometheus with their runbooks, and a dashboard for Grafana.

    alerts      each alert once: its rule, its cause and the next steps
    rules       as a rule file of Prometheus          dashboard   panels, as Grafana imports them
    page        as docs/alerts.md, the runbooks

Data and text alone. `muster metrics` prints them.
"""
