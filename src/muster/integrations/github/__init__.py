"""Nodes as runners of GitHub Actions: registered for one run's jobs, checked, and taken out again.

wire          one request, what a refusal means    runtime      what a node is given, when it is attached
credentials   a token, or a GitHub App             node/        what runs there: install at boot, serve a run
api, budget   ETags, pages; limits and pauses      federation   jobs that sign in by themselves (OIDC)
registry      runners and workflow runs            assembly     all of it, put together
"""
