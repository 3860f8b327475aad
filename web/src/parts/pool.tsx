/** A pool as a bar: what its nodes do, against what it may have and should keep warm. */

import { post } from "../api/client";
import type { Pool } from "../api/types";
import { Act } from "./act";
import { Badge, TemplateLink } from "./words";

const KINDS = [
  ["idle", "idle"],
  ["claimed", "claimed"],
  ["running", "running"],
  ["booting", "booting"],
  ["releasing", "releasing"],
  ["failed", "failed"],
  ["terminating", "ending"],
] as const;

/** `named`: with the way to its template; on that one's page it needs none. */
export function PoolBar({ pool, named = true }: { pool: Pool; named?: boolean }) {
  const counts = KINDS.map(([key, word]) => ({ key, word, count: pool[key] ?? 0 }));
  const present = counts.filter((each) => each.count > 0);
  const total = present.reduce((sum, each) => sum + each.count, 0);
  const room = Math.max(pool.max_nodes, total, 1);
  const reserved = Math.max(0, pool.used - total);
  const share = (count: number) => ({ flexGrow: count });
  const words = present.map((each) => `${each.count} ${each.word}`).join(", ") || "no nodes";
  return (
    <div className="pool" data-testid="pool" data-template={pool.template}>
      <div className="pool-head">
        {named && <TemplateLink name={pool.template} />}
        {pool.paused && <Badge tone="warning">paused</Badge>}
        {pool.idle < pool.min_idle && !pool.paused && (
          <span className="faint">
            {pool.idle} of {pool.min_idle} warm
          </span>
        )}
        <span className="pool-used figures">
          {pool.used} <span className="faint">of {pool.max_nodes}</span>
        </span>
        <BrakeButton
          path={`/templates/${encodeURIComponent(pool.template)}`}
          paused={pool.paused}
          what={pool.template}
        />
      </div>
      <div
        className="pool-bar"
        role="img"
        aria-label={`${words}; ${pool.used} of ${pool.max_nodes} used, ${pool.min_idle} to be kept warm`}
      >
        {present.map((each) => (
          <span
            key={each.key}
            className={`pool-${each.key}`}
            style={share(each.count)}
            title={`${each.count} ${each.word}`}
          />
        ))}
        {reserved > 0 && (
          <span className="pool-reserved" style={share(reserved)} title={`${reserved} reserved by open launches`} />
        )}
        <span className="pool-room" style={share(Math.max(0, room - total - reserved))} />
        {pool.min_idle > 0 && (
          <i
            className="pool-min"
            style={{ left: `${Math.min(100, (100 * pool.min_idle) / room)}%` }}
            title={`min_idle: ${pool.min_idle} to be kept warm`}
          />
        )}
      </div>
      <ul className="pool-legend">
        {present.map((each) => (
          <li key={each.key}>
            <i className={`pool-${each.key}`} /> {each.count} {each.word}
          </li>
        ))}
        {present.length === 0 && <li className="faint">no nodes</li>}
        {pool.min_idle > 0 && <li className="faint">keeps {pool.min_idle} warm</li>}
      </ul>
    </div>
  );
}

export function BrakeButton({ path, paused, what }: { path: string; paused: boolean; what: string }) {
  const words = {
    title: `Pause ${what}?`,
    text: "No run gets nodes and no machine starts until an operator resumes. What runs goes on.",
    yes: "Pause",
  };
  return paused ? (
    <Act needs="operator" act={() => post(`${path}/resume`)}>
      Resume<span className={path === "" ? "" : "unseen"}> {what}</span>
    </Act>
  ) : (
    <Act needs="operator" act={() => post(`${path}/pause`)} confirm={words}>
      Pause<span className={path === "" ? "" : "unseen"}> {what}</span>
    </Act>
  );
}
