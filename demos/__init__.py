"""Show Muster against stand-ins for services that need an account."""
