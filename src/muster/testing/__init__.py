"""Contracts as code, for the tests of adapters. The only part of Muster that needs pytest."""
