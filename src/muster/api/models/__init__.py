"""What goes over the wire, as Pydantic models with examples. Nothing past the routes sees them."""
