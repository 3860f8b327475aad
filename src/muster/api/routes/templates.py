"""Templates, the installation's limits, and the brakes."""

import muster
from muster.api.access import Access
from muster.api.context import CallerToken, Context, Ctx
from muster.api.router import Route, Table
from muster.domain import checks, deadlines
from muster.domain.boot import by_type
from muster.domain.deadlines import Deadline
from muster.domain.errors import InvalidRequest
from muster.ports import store as port
from muster.wire.base import Page
from muster.wire.boots import BootKind, Boots
from muster.wire.templates import (
    Installation,
    Limits,
    Pauses,
    PlanRequest,
    Template,
    TemplatePlan,
    TemplateSpec,
)


async def listed(ctx: Ctx) -> Page[Template]:
    """List the current revision of every template."""
    paused = await ctx.ports.access.pauses()
    found = await ctx.ports.store.templates()
    return Page(items=tuple(Template.of(each, paused=each.name in paused) for each in found))


async def show(ctx: Ctx, name: str) -> Template:
    """Show a template."""
    template = await ctx.ports.store.template(name)
    return Template.of(template, paused=name in await ctx.ports.access.pauses())


async def boots(ctx: Ctx, name: str) -> Boots:
    """Show how long the boots of a template take, and what they are given."""
    template = await ctx.ports.store.template(name)
    limits, learning = ctx.settings.settings.limits, ctx.plane.boot_history
    learned = await learning.by_type(template) if template.spec.learn else {}

    def resolved(kind: str | None) -> Deadline:
        known = learned.get(kind) if kind is not None else None
        return deadlines.resolve_boot(timeout=None, template=template.spec, limits=limits, learned=known)

    found = by_type(await ctx.ports.store.boots(template.name, template.revision))
    kinds = [BootKind.of(some, learned.get(kind), resolved(kind)) for kind, some in found.items()]
    return Boots.of(template, limits, resolved(None), kinds)


async def apply(ctx: Ctx, caller: CallerToken, name: str, body: TemplateSpec) -> Template:
    """Make this the template's content. The revision rises only with what nodes are made from."""
    template = await ctx.plane.templates.apply(body.spec(name), actor=caller.actor)
    return Template.of(template, paused=name in await ctx.ports.access.pauses())


async def plan(ctx: Ctx, body: PlanRequest) -> Page[TemplatePlan]:
    """Say what applying templates would change and cost, and all that is wrong with them. Changes nothing."""
    found: list[TemplatePlan] = []
    for name, content in body.templates.items():
        try:
            found.append(TemplatePlan.of(await ctx.plane.templates.plan(content.spec(name))))
        except InvalidRequest as error:
            found.append(TemplatePlan.refused(name, error))
    return Page(items=tuple(found))


async def retire(ctx: Ctx, caller: CallerToken, name: str) -> Template:
    """Retire a template: no run gets its nodes until it is applied again. Present runs continue."""
    template = await ctx.plane.templates.retire(name, actor=caller.actor)
    return Template.of(template, paused=name in await ctx.ports.access.pauses())


async def pause(ctx: Ctx, caller: CallerToken, name: str) -> Pauses:
    """Hold back new claims and launches of a template. What runs goes on."""
    await ctx.plane.operator.pause(name, actor=caller.actor)
    return await _pauses(ctx)


async def resume(ctx: Ctx, caller: CallerToken, name: str) -> Pauses:
    """Let a template go on."""
    await ctx.plane.operator.resume(name, actor=caller.actor)
    return await _pauses(ctx)


async def pause_all(ctx: Ctx, caller: CallerToken) -> Pauses:
    """Hold back new claims and launches of everything. What runs goes on."""
    await ctx.plane.operator.pause(None, actor=caller.actor)
    return await _pauses(ctx)


async def resume_all(ctx: Ctx, caller: CallerToken) -> Pauses:
    """Let everything go on, apart from templates that are paused by name."""
    await ctx.plane.operator.resume(None, actor=caller.actor)
    return await _pauses(ctx)


async def installation(ctx: Ctx) -> Installation:
    """Show this installation and its cap over all templates."""
    return _installation(await ctx.ports.store.installation())


async def limit(ctx: Ctx, caller: CallerToken, body: Limits) -> Installation:
    """Set the cap over all templates. Lowering it stops launches, nothing else."""
    most = checks.whole("max_nodes", body.max_nodes, least=0, most=checks.MACHINES_MAX)
    store = ctx.ports.store
    return _installation(await store.limit_installation(most, now=ctx.now(), actor=caller.actor))


def _installation(found: port.Installation) -> Installation:
    return Installation(id=found.id, max_nodes=found.max_nodes, version=muster.__version__)


async def _pauses(ctx: Context) -> Pauses:
    found = await ctx.ports.access.pauses()
    return Pauses(all=None in found, templates=tuple(name for name in found if name is not None))


TABLE = Table(
    "templates",
    (
        Route("GET", "/templates", Access.VIEWER, listed),
        Route("GET", "/templates/{name}", Access.VIEWER, show),
        Route("GET", "/templates/{name}/boots", Access.VIEWER, boots),
        Route("PUT", "/templates/{name}", Access.ADMIN, apply),
        Route("POST", "/templates/plan", Access.ADMIN, plan),
        Route("POST", "/templates/{name}/retire", Access.ADMIN, retire),
        Route("POST", "/templates/{name}/pause", Access.OPERATOR, pause),
        Route("POST", "/templates/{name}/resume", Access.OPERATOR, resume),
        Route("POST", "/pause", Access.OPERATOR, pause_all),
        Route("POST", "/resume", Access.OPERATOR, resume_all),
        Route("GET", "/installation", Access.VIEWER, installation),
        Route("PUT", "/installation", Access.ADMIN, limit),
    ),
)
