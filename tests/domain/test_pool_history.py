from muster.domain.lifecycle import NodeState
from muster.domain.pool_history import EVERY, TEMPLATES_MOST, Point, PoolCount, PoolSample, lines, sampled
from muster.domain.template import Template, TemplateSpec


def template(name: str, *, min_idle: int = 0, max_nodes: int = 20) -> Template:
    spec = TemplateSpec(
        name=name, provider="simulated", resource_class="large", min_idle=min_idle, max_nodes=max_nodes
    )
    return Template(spec=spec, revision=1, applied_at=0.0)


def count(total: int, name: str = "ci") -> PoolCount:
    return PoolCount(template=name, running=total)


def test_a_sample_counts_what_the_nodes_of_each_template_do() -> None:
    census = {"ci": {NodeState.CREATED: 1, NodeState.IDLE: 2, NodeState.RUNNING: 3, NodeState.FAILED: 4}}
    sample = sampled(census, [template("ci", min_idle=2, max_nodes=12)], now=125.0)
    assert sample.at == 120.0, "the minute that it stands for"
    assert sample.pools == (
        PoolCount(template="ci", booting=1, idle=2, running=3, other=4, min_idle=2, max_nodes=12),
    )


def test_a_template_that_has_and_keeps_nothing_is_left_out() -> None:
    sample = sampled({"a": {NodeState.IDLE: 0}}, [template("a"), template("b", min_idle=1)], now=0.0)
    assert [pool.template for pool in sample.pools] == ["b"]


def test_a_sample_is_bounded_and_keeps_the_largest_pools() -> None:
    names = [f"t{n:04d}" for n in range(TEMPLATES_MOST + 1)]
    census = {name: {NodeState.IDLE: n + 1} for n, name in enumerate(names)}
    sample = sampled(census, [template(name) for name in names], now=0.0)
    assert [pool.template for pool in sample.pools] == names[1:]


def test_a_point_shows_the_busiest_sample_of_its_step() -> None:
    samples = [PoolSample(at=at * EVERY, pools=(count(total),)) for at, total in enumerate((1, 9, 2, 3))]
    assert lines(samples, since=0.0, step=2 * EVERY) == {
        "ci": [Point(at=0.0, count=count(9)), Point(at=2 * EVERY, count=count(3))]
    }


def test_a_template_that_a_sample_leaves_out_had_no_nodes_then() -> None:
    samples = [PoolSample(at=0.0, pools=(count(2),)), PoolSample(at=EVERY, pools=(count(1, "other"),))]
    drawn = lines(samples, since=0.0, step=EVERY)
    assert [point.count.total for point in drawn["ci"]] == [2, 0]
    assert [point.count.total for point in drawn["other"]] == [0, 1]


def test_a_time_without_a_sample_has_no_point() -> None:
    samples = [PoolSample(at=at, pools=(count(1),)) for at in (0.0, 600.0)]
    assert [point.at for point in lines(samples, since=0.0, step=EVERY)["ci"]] == [0.0, 600.0]


def test_a_pool_without_nodes_keeps_the_bounds_that_it_had_last() -> None:
    first = PoolCount(template="ci", running=2, min_idle=1, max_nodes=9)
    samples = [PoolSample(at=0.0, pools=(first,)), PoolSample(at=EVERY, pools=())]
    last = lines(samples, since=0.0, step=EVERY)["ci"][-1].count
    assert last == PoolCount(template="ci", min_idle=1, max_nodes=9)
