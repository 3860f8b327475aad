/** The overview for a screen on a wall: large, dark, without buttons. It keeps itself up to date. */

import { useEffect } from "react";
import type { FeedEvent, Overview } from "../api/types";
import { useConnection } from "../live/history";
import { useResource } from "../live/resource";
import { useNow } from "../live/ticking";
import { ToneSign } from "../parts/icons";
import { PoolsChart } from "../parts/lazy";
import { Loading, Trouble } from "../parts/states";
import { Link } from "../routing/router";
import { took } from "../words/time";

const EVERY = 30_000;
const GAP = 2000;
const CHARTS = 4;
const always = (_event: FeedEvent) => true;

/** Dark while it is shown; what the viewer chose for the other pages comes back after it. */
function useDark(): void {
  useEffect(() => {
    const { dataset } = document.documentElement;
    const before = dataset["theme"];
    dataset["theme"] = "dark";
    return () => {
      if (before === undefined) delete dataset["theme"];
      else dataset["theme"] = before;
    };
  }, []);
}

export function Wallboard() {
  useDark();
  const read = useResource<Overview>("/overview", { on: always, gap: GAP, every: EVERY });
  const overview = read.data;
  return (
    <div className="wall" data-testid="wallboard">
      <h1 className="unseen">Wallboard</h1>
      {read.error && <Trouble error={read.error} />}
      {overview ? <Board overview={overview} /> : !read.error && <Loading rows={4} />}
      <PoolsChart first={CHARTS} wall />
      <Foot />
    </div>
  );
}

function Board({ overview }: { overview: Overview }) {
  const { verdict, findings = [], pools, waiting, failures, warmth } = overview;
  const sum = (key: "running" | "idle" | "booting") => pools?.items.reduce((all, pool) => all + pool[key], 0) ?? 0;
  const rate = warmth?.hour.rate;
  const others = findings.filter((each) => !each.over && each.text !== verdict?.text).slice(0, 3);
  return (
    <>
      {verdict && (
        <section className={`wall-verdict tone-${verdict.tone}`} role="status" data-tone={verdict.tone}>
          <ToneSign tone={verdict.tone} />
          <div>
            <p>
              <bdi>{verdict.text}</bdi>
            </p>
            {others.map((each) => (
              <p key={each.id} className={`wall-other tone-${each.tone}`}>
                <bdi>{each.text}</bdi>
              </p>
            ))}
          </div>
        </section>
      )}
      <dl className="wall-figures">
        <Big name="running" value={sum("running")} />
        <Big name="idle" value={sum("idle")} />
        <Big name="booting" value={sum("booting")} />
        <Big name="waiting" value={waiting?.count ?? 0} tone={waiting?.count ? "warning" : ""} />
        <Big name="failed, hour" value={failures?.hour.count ?? 0} tone={failures?.hour.count ? "danger" : ""} />
        <Big name="warm hits, hour" value={typeof rate === "number" ? `${Math.round(100 * rate)} %` : "–"} />
        <Big name="ready, p50, hour" value={warmth?.hour.ready ? took(warmth.hour.ready.p50) : "–"} />
        <Big name={`used of ${pools?.max_nodes ?? 0}`} value={pools?.used ?? 0} />
      </dl>
    </>
  );
}

function Big({ name, value, tone = "" }: { name: string; value: string | number; tone?: string }) {
  return (
    <div className={tone && `tone-${tone}`}>
      <dt>{name}</dt>
      <dd className="figures">{value}</dd>
    </div>
  );
}

function Foot() {
  const now = useNow();
  const { kind } = useConnection();
  return (
    <footer className="wall-foot faint">
      <span data-testid="connection" data-connection={kind}>
        {kind === "lost" ? "connection lost, retrying" : kind}
      </span>
      <span className="figures">{new Date(now).toLocaleTimeString(undefined, { hour12: false })}</span>
      <Link href="/">Exit</Link>
    </footer>
  );
}
