"""For apps that are nodes themselves: they enrol, say how they feel, and leave. Never in the app's way.

node         what an app holds: a context manager, and a lifespan for ASGI apps
session      one life as a node: the thread behind it, and its link to the servers
membership   what to say next, and what an answer means: pure, without a clock or a socket
settings     arguments and environment, checked once, when it starts
"""

from muster.sdk.node import Node
from muster.sdk.settings import Misconfigured

__all__ = ["Misconfigured", "Node"]
