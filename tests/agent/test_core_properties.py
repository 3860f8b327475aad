"""Whatever the order, loss and repetition of answers: what the agent's core never does."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.agent import agent as a

IDS = ["c1", "c2", "c3"]
orders = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from(IDS), "argv": st.just(["true"]), "cancel": st.booleans()},
        optional={"timeout": st.sampled_from([None, 3])},
    ),
    max_size=3,
)
answers = st.fixed_dictionaries(
    {
        "version": st.integers(1, 12),
        "directive": st.sampled_from(["stay", "attach", "attach", "detach", "detach"]),
        "assignment_id": st.sampled_from(["as-1", "as-2"]),
        "dead_man": st.sampled_from([50, 1000]),
        "commands": orders,
        "kit": st.booleans(),
    }
)
statuses = st.sampled_from([200, 200, 200, 0, 503, 401, 404, 409, 422])
moves = st.one_of(
    st.tuples(st.just("answer"), st.integers(0, 5), statuses, answers),
    st.tuples(st.just("replay"), st.integers(0, 20), statuses, answers),
    st.tuples(st.just("done"), st.integers(0, 5)),
    st.tuples(st.just("speak")),
    st.tuples(st.just("end"), st.sampled_from([0, 1])),
    st.tuples(st.just("time"), st.sampled_from([0.0, 0.5, 3.0, 20.0])),
)


class World:
    """Performs effects in any order, late, and answers as it likes; checks every effect."""

    def __init__(self) -> None:
        self.state, self.now = a.State(), 0.0
        self.sends: list[a.Send] = []
        self.old: list[a.Send] = []
        self.todo: list[a.Effect] = []
        self.started: list[str] = []
        self.running: dict[str, bool] = {}
        self.held = ""
        self.hosted = ""
        self.feed(a.Started("key", "boot", 1740.0))
        join = {"node_id": "n", "token": "t", "desired": {"version": 0, "directive": "stay", "dead_man": 500}}
        self.answer(0, 200, join)

    def feed(self, event: a.Event) -> None:
        known, was_over = self.state.desired.version, self.state.over
        self.state, effects = a.step(self.state, event, self.now, 0.5)
        assert self.state.desired.version >= known, "older news was taken"
        assert not (was_over and effects), "it goes on after its end"
        for effect in effects:
            self.check(effect)
        assert self.state.over or a.wake(self.state) > self.now, "a busy loop"

    def check(self, effect: a.Effect) -> None:
        if isinstance(effect, a.Send):
            twice = [s for s in self.sends if s.line == effect.line and s.epoch == effect.epoch]
            assert not twice, "two requests on one line"
            self.sends.append(effect)
            self.truthful(effect.body)
        elif isinstance(effect, (a.Attach, a.Detach)):
            assert not any(isinstance(e, (a.Attach, a.Detach)) for e in self.todo), "two moves at once"
            if isinstance(effect, a.Attach):
                assert not self.held, "attached to two assignments"
            else:
                assert effect.assignment == self.held
            self.todo.append(effect)
        elif isinstance(effect, a.StartCommand):
            key = effect.order["id"]
            assert key not in self.started, "a command started twice"
            assert effect.assignment == self.held, "a command without its assignment"
            self.started.append(key)
            self.running[key] = False
            self.todo.append(effect)

    def truthful(self, body: dict[str, Any]) -> None:
        if "attached" in body:
            assert body["attached"] == self.held, "reported what isn't so"
        if "detached" in body:
            assert not self.held, "reported what isn't proven"

    def answer(self, which: int, status: int, body: dict[str, Any]) -> None:
        if not self.sends:
            return
        send = self.sends.pop(which % len(self.sends))
        self.old.append(send)
        if send.what == "join":
            body = {"node_id": "n", "token": "t", "desired": {**body, **body.get("desired", {})}}
            status = 0 if status in (403, 410) else status
        if send.what == "kit":
            body = {"program": "a program"}
        if send.what == "output":
            body = {"offset": send.body["offset"] + 1}
        self.feed(a.Answered(send.line, send.what, send.epoch, status, body))

    def replay(self, which: int, status: int, body: dict[str, Any]) -> None:
        """An answer that comes twice, or from long ago."""
        polls = [s for s in self.old if s.what in ("desired", "report") and s.epoch < self.state.epoch]
        if polls:
            send = polls[which % len(polls)]
            self.feed(a.Answered(send.line, send.what, send.epoch, status, body))

    def done(self, which: int) -> None:
        if not self.todo:
            return
        effect = self.todo.pop(which % len(self.todo))
        if isinstance(effect, (a.Attach, a.Detach)):
            if isinstance(effect, a.Detach):
                self.end(1)  # a program that is still there is ended first
            self.held = effect.assignment if isinstance(effect, a.Attach) else ""
            self.hosted = self.held if isinstance(effect, a.Attach) and effect.program else ""
            self.feed(a.Moved(self.held))
        elif isinstance(effect, a.StartCommand):
            key = effect.order["id"]
            if not self.running[key]:
                self.running[key] = True
                self.todo.append(effect)
                self.feed(a.CommandIs(key, "running"))
                self.feed(a.CommandIs(key, "running", 3))
            else:
                self.feed(a.CommandIs(key, "exited", 4, True, 0))

    def speak(self) -> None:
        """The program says that it is ready."""
        if self.hosted:
            self.feed(a.CommandIs(self.hosted, "running", 3))

    def end(self, code: int) -> None:
        if self.hosted:
            ended, self.hosted = self.hosted, ""
            self.feed(a.Ended(ended, code, "its last words"))

    def time(self, seconds: float) -> None:
        self.now += seconds
        self.feed(a.Tick())


@settings(max_examples=300, deadline=None)
@given(st.lists(moves, max_size=60))
def test_no_command_starts_twice_and_no_two_assignments_are_held_whatever_happens(
    plan: list[tuple[Any, ...]],
) -> None:
    world = World()
    for verb, *given_ in plan:
        getattr(world, verb)(*given_)


@settings(max_examples=100, deadline=None)
@given(st.lists(moves, max_size=40), st.booleans(), st.booleans())
def test_once_the_server_answers_again_the_node_is_where_it_should_be(
    plan: list[tuple[Any, ...]], attach: bool, kit: bool
) -> None:
    world = World()
    for verb, *given_ in plan:
        getattr(world, verb)(*given_)
    if world.state.over:
        return
    final = {"version": 99, "directive": "attach" if attach else "detach", "assignment_id": "as-9"}
    for _ in range(300):
        while world.todo:
            world.done(0)
        world.speak()
        while world.sends and not world.state.over:
            said = world.sends[0]
            world.answer(0, 200, {**final, "dead_man": 1000, "kit": kit})
            if said.body == ({"attached": "as-9"} if attach else {"detached": "as-9"}):
                return
        world.time(max(0.0, a.wake(world.state) - world.now))
    raise AssertionError(f"it never arrived: {world.state}")
