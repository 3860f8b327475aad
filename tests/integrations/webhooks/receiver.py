"""A receiver of webhooks on loopback that answers as it is told to."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.integrations.listener import Answer, HttpListener, Posted


@dataclass(frozen=True)
class Message(Posted):
    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class ReceiverServer(HttpListener):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self.answers: list[tuple[int, Mapping[str, str]]] = []
        """For the next messages; then 204."""
        self.refuses: Callable[[Message], bool] = lambda _message: False
        """Which messages get a 500, each time."""

    def typed(self, kind: str) -> list[Message]:
        return [each for each in list(self.messages) if each.content.get("type") == kind]

    def took(self, posted: Posted) -> Answer:
        message = Message(posted.path, posted.headers, posted.body)
        self.messages.append(message)
        if self.refuses(message):
            return Answer(500)
        return Answer(*self.answers.pop(0)) if self.answers else Answer(204)
