/** The charts of pools on a page. Loaded with the first page that has some, after the page itself. */

import { useState } from "react";
import { busiest, usePoolHistory } from "../live/pool-history";
import { Card } from "./facts";
import { Shown } from "./states";
import { PoolTimeline, reach, ReadyChart, spanOf } from "./timeline";
import { TemplateLink } from "./words";

const FIRST = 3;

const WALL = 0.26; // of a screen's height, which the charts on it share: a wall is not scrolled
const WALL_LEAST = 84;

/** The overview's first chart: a day of each pool, the busiest first. */
export function DayOfPools({ first = FIRST, wall = false }: { first?: number; wall?: boolean }) {
  const read = usePoolHistory();
  const [all, setAll] = useState(false);
  return (
    <Card title="Pool use" id="pool-use" side={read.data && <span className="faint">{reach(read.data)}</span>}>
      <Shown read={read} rows={2}>
        {(history) => {
          const items = busiest(history);
          const shown = all ? items : items.slice(0, first);
          const tall = Math.max(WALL_LEAST, Math.round((WALL * innerHeight) / shown.length));
          return (
            <>
              {items.length === 0 && <p className="calm">No pool had nodes. The chart gets a point each minute.</p>}
              {shown.map((item) => (
                <section key={item.template} className="timeline-row" aria-label={`Use of ${item.template}`}>
                  <h3>
                    <TemplateLink name={item.template} />
                  </h3>
                  <PoolTimeline item={item} span={spanOf(history)} {...(wall && { tall })} />
                </section>
              ))}
              {!wall && items.length > shown.length && (
                <button type="button" className="button button-quiet" onClick={() => setAll(true)}>
                  Show {items.length - shown.length} more
                </button>
              )}
            </>
          );
        }}
      </Shown>
    </Card>
  );
}

/** One template's day: its pool, and how long its runs waited. */
export function DayOfTemplate({ name }: { name: string }) {
  const read = usePoolHistory(name);
  return (
    <>
      <Card title="Pool use" id="pool-use" side={read.data && <span className="faint">{reach(read.data)}</span>}>
        <Shown read={read} rows={2}>
          {(history) => {
            const item = history.items.find((each) => each.template === name);
            return item && item.points.length > 0 ? (
              <PoolTimeline item={item} span={spanOf(history)} />
            ) : (
              <p className="calm">No nodes in the last 24 hours. Muster counts them once a minute.</p>
            );
          }}
        </Shown>
      </Card>
      <Card title="Time to ready" id="time-to-ready" side={<span className="faint">last 24 hours</span>}>
        <Shown read={read} rows={2}>
          {(history) => {
            const item = history.items.find((each) => each.template === name);
            return item ? <ReadyChart item={item} span={spanOf(history)} /> : <p className="calm">No provisions.</p>;
          }}
        </Shown>
      </Card>
    </>
  );
}
