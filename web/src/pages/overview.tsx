/** One page that says what runs, what waits and why, what is broken and what to do. What is wrong comes first. */

import { useMemo } from "react";
import type { FeedEvent, Operation, Overview, Page, Pool } from "../api/types";
import { useResource } from "../live/resource";
import { Banner } from "../parts/banner";
import { Card, Figure } from "../parts/facts";
import { PoolsChart } from "../parts/lazy";
import { useMay } from "../parts/act";
import { BrakeButton, PoolBar } from "../parts/pool";
import { Empty, Loading, Shown, Trouble } from "../parts/states";
import { HealthBadge } from "../parts/words";
import { HEALTHS } from "../api/types";
import { Link } from "../routing/router";
import { counted } from "../words/names";
import { took } from "../words/time";
import { Changes, FailuresCard, LeftoversCard, WaitingCard } from "./overview-blocks";
import { HeldCard } from "./overview-held";
import { RunsCard } from "./overview-runs";
import { SystemCard } from "./overview-system";
import { UndeliveredCard } from "./overview-undelivered";
import { Verdict } from "./overview-verdict";

const OVERVIEW_GAP = 2000;
const OVERVIEW_EVERY = 30_000; // ages of duties move without any event
const BANNERS_MOST = 30;

const always = () => true;
const ofOperations = (event: FeedEvent) => event.entity === "operation";

export function OverviewPage() {
  const overview = useResource<Overview>("/overview", { on: always, gap: OVERVIEW_GAP, every: OVERVIEW_EVERY });
  const data = overview.data;
  return (
    <div className="overview">
      <h1 className="unseen">Overview</h1>
      {overview.error && <Trouble error={overview.error} retry={overview.refresh} />}
      {data ? <Verdict overview={data} refresh={overview.refresh} /> : !overview.error && <Loading rows={2} />}
      <Running />
      <PoolsChart />
      {data && (
        <div className="columns">
          <div className="column">
            {data.runs && <RunsCard runs={data.runs} />}
            {data.held && <HeldCard held={data.held} />}
            {data.undelivered && <UndeliveredCard backlogs={data.undelivered} refresh={overview.refresh} />}
            {data.waiting && <WaitingCard waiting={data.waiting} />}
            {data.failures && <FailuresCard failures={data.failures} overview={data} />}
            {data.leftovers && <LeftoversCard leftovers={data.leftovers} />}
            {data.changes && <Changes changes={data.changes} />}
          </div>
          <div className="column">
            <Pools overview={data} />
            <Warmth overview={data} />
            <HealthCounts overview={data} />
            <SystemCard overview={data} />
          </div>
        </div>
      )}
    </div>
  );
}

function Running() {
  const operator = useMay("operator");
  const read = useResource<Page<Operation>>("/operations", {
    query: { status: ["queued", "running"], limit: BANNERS_MOST },
    on: ofOperations,
  });
  const oldestFirst = useMemo(() => [...(read.data?.items ?? [])].reverse(), [read.data]);
  return (
    <section aria-label="Running operations" className="running">
      <header className="section-head">
        <h2>Running operations</h2>
        <Link href="/operations">All operations</Link>
      </header>
      <Shown read={read} rows={2}>
        {() =>
          oldestFirst.length === 0 ? (
            <Empty title="No operation is running">
              <p>
                Provisions, releases, refills and runs are listed here while they run.
                {operator && (
                  <>
                    {" "}
                    Start one with <strong>Provision</strong>, or with{" "}
                    <code>muster provision --count 3 --run ci-42</code>.
                  </>
                )}
              </p>
            </Empty>
          ) : (
            <div className="banners">
              {oldestFirst.map((operation) => (
                <Banner key={operation.operation_id} operation={operation} />
              ))}
              {read.data?.next && (
                <p className="more">
                  These are the newest {BANNERS_MOST}; <Link href="/operations?status=running">all that run</Link>,{" "}
                  <Link href="/operations?status=queued">all that wait</Link>
                </p>
              )}
            </div>
          )
        }
      </Shown>
    </section>
  );
}

function Pools({ overview }: { overview: Overview }) {
  const pools = overview.pools;
  const operator = useMay("operator");
  if (!pools) return null;
  const side = (
    <>
      <span className="figures faint">
        {pools.used} of {pools.max_nodes} in all
      </span>
      <BrakeButton path="" paused={pools.paused} what="everything" />
    </>
  );
  return (
    <Card title="Pools" side={side} id="pools">
      {pools.items.length === 0 ? (
        <Empty title="No template makes nodes yet">
          {operator && (
            <p>
              Describe one in <code>muster.toml</code>, then run <code>muster apply</code>.
            </p>
          )}
        </Empty>
      ) : (
        <PoolBars pools={pools.items} />
      )}
    </Card>
  );
}

/** Those that hold or should hold nodes; the rest is a line that opens. */
export function PoolBars({ pools }: { pools: readonly Pool[] }) {
  const inUse = pools.filter((pool) => pool.used > 0 || pool.min_idle > 0 || pool.paused);
  const empty = pools.filter((pool) => !inUse.includes(pool));
  const bars = (some: readonly Pool[]) => some.map((pool) => <PoolBar key={pool.template} pool={pool} />);
  if (inUse.length === 0) return bars(empty);
  return (
    <>
      {bars(inUse)}
      {empty.length > 0 && (
        <details className="section">
          <summary>{empty.length} more without nodes</summary>
          {bars(empty)}
        </details>
      )}
    </>
  );
}

function Warmth({ overview }: { overview: Overview }) {
  const { warmth } = overview;
  if (!warmth) return null;
  const { hour, day } = warmth;
  const rate = (value: number | null | undefined) => (typeof value === "number" ? `${Math.round(100 * value)} %` : "–");
  return (
    <Card title="How fast" id="warmth">
      <div className="figures-row figures-pairs">
        <Figure
          name="Warm hits · hour"
          value={rate(hour.rate)}
          note={hour.nodes > 0 ? `${hour.warm} of ${counted(hour.nodes, "node")}` : "no provisions"}
        />
        <Figure
          name="Warm hits · day"
          value={rate(day.rate)}
          note={day.nodes > 0 ? `${day.warm} of ${counted(day.nodes, "node")}` : "no provisions"}
        />
        <Figure
          name="Time to ready, p50 · hour"
          value={hour.ready ? took(hour.ready.p50) : "–"}
          note={hour.ready ? `p95 ${took(hour.ready.p95)}` : "none finished"}
        />
        <Figure
          name="Time to ready, p50 · day"
          value={day.ready ? took(day.ready.p50) : "–"}
          note={day.ready ? `p95 ${took(day.ready.p95)}` : "none finished"}
        />
      </div>
    </Card>
  );
}

function HealthCounts({ overview }: { overview: Overview }) {
  const { health } = overview;
  if (!health) return null;
  return (
    <Card title="Health" id="health" side={<Link href="/nodes">All nodes</Link>}>
      <ul className="health-counts">
        {HEALTHS.map((each) => (
          <li key={each} data-health={each} data-none={!health[each]}>
            <Link href={`/nodes?health=${each}`}>
              <strong className="figures">{health[each] ?? 0}</strong>
              <HealthBadge health={each} />
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}
