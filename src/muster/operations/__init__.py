"""Long pieces of work: provision, release, refill; the desk that accepts them, the driver that leads them."""
