"""Mutation testing of the domain: break one rule at a time, and see whether a test notices.

Owns what is broken (`edits`), the trial of one mutant (`trials`) and what is told (`report`). It never writes
to the tree: a mutant is made in the memory of a forked process and ends with it. Why no tool from elsewhere
is used is in ADR 11.
"""
