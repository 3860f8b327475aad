"""Where nodes come from: one package per provider, each an adapter of `muster.ports.provider`."""
