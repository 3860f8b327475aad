"""Templates, the installation's limits, and the brakes."""

import muster
from muster.api.access import Access
from muster.api.context import Caller, Context, Here
from muster.api.models.boots import BootsOut, KindOut
from muster.api.models.templates import (
    InstallationOut,
    LimitsIn,
    PausesOut,
    SpecIn,
    TemplateOut,
    TemplatesOut,
)
from muster.api.routing import Route, Table
from muster.domain import checks, deadlines
from muster.domain.boot import by_type
from muster.domain.deadlines import Deadline
from muster.ports.store import Installation


async def listed(ctx: Here) -> TemplatesOut:
    """List the current revision of every template."""
    paused = await ctx.ports.access.pauses()
    found = await ctx.ports.store.templates()
    return TemplatesOut(items=[TemplateOut.of(each, paused=each.name in paused) for each in found])


async def show(ctx: Here, name: str) -> TemplateOut:
    """Show a template."""
    template = await ctx.ports.store.template(name)
    return TemplateOut.of(template, paused=name in await ctx.ports.access.pauses())


async def boots(ctx: Here, name: str) -> BootsOut:
    """Show how long the boots of a template take, and what they are given."""
    template = await ctx.ports.store.template(name)
    limits, learning = ctx.settings.settings.limits, ctx.plane.learning
    learned = await learning.by_type(template) if template.spec.learn else {}

    def resolved(kind: str | None) -> Deadline:
        known = learned.get(kind) if kind is not None else None
        return deadlines.resolve_boot(timeout=None, template=template.spec, limits=limits, learned=known)

    found = by_type(await ctx.ports.store.boots(template.name, template.revision))
    kinds = [KindOut.of(some, learned.get(kind), resolved(kind)) for kind, some in found.items()]
    return BootsOut.of(template, resolved(None), deadlines.max_boot(template.spec, limits), kinds)


async def apply(ctx: Here, caller: Caller, name: str, body: SpecIn) -> TemplateOut:
    """Make this the template's content. Equal content keeps its revision."""
    template = await ctx.plane.templates.apply(body.spec(name), actor=caller.actor)
    return TemplateOut.of(template, paused=name in await ctx.ports.access.pauses())


async def retire(ctx: Here, caller: Caller, name: str) -> TemplateOut:
    """Give nobody nodes of a template any more, until it is applied again. What runs goes on."""
    template = await ctx.plane.templates.retire(name, actor=caller.actor)
    return TemplateOut.of(template, paused=name in await ctx.ports.access.pauses())


async def pause(ctx: Here, caller: Caller, name: str) -> PausesOut:
    """Hold back new claims and launches of a template. What runs goes on."""
    await ctx.plane.operator.pause(name, actor=caller.actor)
    return await _pauses(ctx)


async def resume(ctx: Here, caller: Caller, name: str) -> PausesOut:
    """Let a template go on."""
    await ctx.plane.operator.resume(name, actor=caller.actor)
    return await _pauses(ctx)


async def pause_all(ctx: Here, caller: Caller) -> PausesOut:
    """Hold back new claims and launches of everything. What runs goes on."""
    await ctx.plane.operator.pause(None, actor=caller.actor)
    return await _pauses(ctx)


async def resume_all(ctx: Here, caller: Caller) -> PausesOut:
    """Let everything go on, apart from templates that are paused by name."""
    await ctx.plane.operator.resume(None, actor=caller.actor)
    return await _pauses(ctx)


async def installation(ctx: Here) -> InstallationOut:
    """Show this installation and its cap over all templates."""
    return _installation(await ctx.ports.store.installation())


async def limit(ctx: Here, caller: Caller, body: LimitsIn) -> InstallationOut:
    """Set the cap over all templates. Lowering it stops launches, nothing else."""
    most = checks.whole("max_nodes", body.max_nodes, least=0, most=checks.MACHINES_MAX)
    store = ctx.ports.store
    return _installation(await store.limit_installation(most, now=ctx.now(), actor=caller.actor))


def _installation(found: Installation) -> InstallationOut:
    return InstallationOut(id=found.id, max_nodes=found.max_nodes, version=muster.__version__)


async def _pauses(ctx: Context) -> PausesOut:
    found = await ctx.ports.access.pauses()
    return PausesOut(all=None in found, templates=[name for name in found if name is not None])


TABLE = Table(
    "templates",
    (
        Route("GET", "/templates", Access.VIEWER, listed),
        Route("GET", "/templates/{name}", Access.VIEWER, show),
        Route("GET", "/templates/{name}/boots", Access.VIEWER, boots),
        Route("PUT", "/templates/{name}", Access.ADMIN, apply),
        Route("POST", "/templates/{name}/retire", Access.ADMIN, retire),
        Route("POST", "/templates/{name}/pause", Access.OPERATOR, pause),
        Route("POST", "/templates/{name}/resume", Access.OPERATOR, resume),
        Route("POST", "/pause", Access.OPERATOR, pause_all),
        Route("POST", "/resume", Access.OPERATOR, resume_all),
        Route("GET", "/installation", Access.VIEWER, installation),
        Route("PUT", "/installation", Access.ADMIN, limit),
    ),
)
