"""Make nodes runners of GitHub Actions: register them for the jobs of one run, check them, remove them.

responses     one request, its refusals            runtime             what a node gets, when it is attached
credentials   a token, or a GitHub App             node/               its programs: install, serve a run
api           ETags, pages, limits and pauses      federation          jobs that sign in by themselves (OIDC)
registry      runners and workflow runs            provisioned_scopes  where our runners may be
runners       the registry's contract              parts               all of it, for a server
"""
