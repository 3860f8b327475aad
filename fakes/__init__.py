"""Stand-ins for services that Muster talks to, faithful where it matters, and able to fail on demand.

Used by tests, demos and benchmarks; never shipped, never imported by Muster, and ignorant of it.
"""
