"""People who sign in by an identity provider that speaks OpenID Connect. See docs/sign-in.md.

tables      the settings [oidc]                    roles      groups and addresses to a role
discovery   what the provider says of itself       id_tokens  the check of what it signs
provider    the sign-in: authorization code, PKCE  doctor     the check of the settings
"""
