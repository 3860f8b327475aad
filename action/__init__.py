"""The GitHub Action: what `action.yml` at the root runs."""
