"""Pictures of the page for the README: a real server with real nodes, in a real browser."""
