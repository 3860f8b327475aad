"""Where nodes, clusters and runners come from: one sealed package per integration."""
