"""Decisions and words: pure code over frozen values. No I/O, no clock, no async, nothing but the stdlib."""
