"""Long pieces of work. The desk accepts operations, the driver advances them, one module per kind."""
