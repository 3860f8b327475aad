/** What the nodes of a pool did over a day, as stacked areas under the cap, and how long runs waited for theirs. */

import { type RefObject, useLayoutEffect, useRef, useState } from "react";
import type { PoolHistory, PoolPoint, TemplateHistory } from "../api/types";
import { counted } from "../words/names";
import { clockTime, took } from "../words/time";

const WIDE = 720;
const NARROW = 500;
const HEIGHT = 84;
const BOTTOM = 16;
const BOTTOM_TALL = 22;
const LABEL = 20; // pixels that a number above a line takes
export const LAYERS = ["running", "booting", "idle", "other"] as const;
type Layer = (typeof LAYERS)[number];
const HOUR = 3_600_000;

/** The width that a chart has: its text keeps its size on a phone and on a wall. */
function useWidth(): [RefObject<HTMLElement | null>, number] {
  const figure = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(WIDE);
  useLayoutEffect(() => {
    const box = figure.current;
    if (!box) return undefined;
    const look = () => setWidth(Math.round(box.clientWidth) || WIDE);
    look();
    const sizes = new ResizeObserver(look);
    sizes.observe(box);
    return () => sizes.disconnect();
  }, []);
  return [figure, width];
}

interface Span {
  since: number;
  until: number;
  step: number;
}

export function spanOf(history: Pick<PoolHistory, "since" | "until" | "step_seconds">): Span {
  return { since: Date.parse(history.since), until: Date.parse(history.until), step: history.step_seconds * 1000 };
}

/** How far back it reaches: not yet a day on a server that began today. */
export function reach(history: Pick<PoolHistory, "since" | "until">): string {
  const hours = (Date.parse(history.until) - Date.parse(history.since)) / HOUR;
  return hours >= 23 ? "last 24 hours" : `since ${clockTime(history.since)}`;
}

/** Points without a break between them: while no server was up, there is no line. */
export function stretches(points: readonly PoolPoint[], step: number): PoolPoint[][] {
  const found: PoolPoint[][] = [];
  let last = -Infinity;
  for (const point of points) {
    const at = Date.parse(point.at);
    if (at - last > 1.5 * step) found.push([]);
    found.at(-1)?.push(point);
    last = at;
  }
  return found;
}

const height = (point: PoolPoint, upto: Layer): number =>
  LAYERS.slice(0, LAYERS.indexOf(upto) + 1).reduce((sum, layer) => sum + point[layer], 0);
const total = (point: PoolPoint): number => height(point, "other");

/** The words of a chart for who doesn't see it. */
export function described({ template, points }: TemplateHistory): string {
  const last = points.at(-1);
  if (!last) return `${template}: no samples yet`;
  const peak = points.reduce((most, point) => (total(point) > total(most) ? point : most), last);
  const now = `${last.running} running, ${last.booting} booting, ${last.idle} idle of ${last.max_nodes}`;
  return `${template}: last ${now}; most at ${clockTime(peak.at)}: ${counted(total(peak), "node")}`;
}

/** One template's day. Its scale reaches the cap only if use comes near it: a cap of 1,000 would flatten the rest. */
export function PoolTimeline({ item, span, tall = HEIGHT }: { item: TemplateHistory; span: Span; tall?: number }) {
  const [figure, W] = useWidth();
  const [chosen, choose] = useState<PoolPoint | null>(null);
  const { points } = item;
  const peak = Math.max(1, ...points.map(total));
  const cap = points.at(-1)?.max_nodes ?? 0;
  const near = cap > 0 && cap <= 2.5 * peak;
  const bottom = tall > HEIGHT ? BOTTOM_TALL : BOTTOM;
  // Without a cap that is near, the most there was is the scale, and has its number above it.
  const top = near ? Math.max(peak, cap) * 1.08 : (peak * (tall - bottom)) / (tall - bottom - LABEL);
  const x = (at: number) => ((at - span.since) / Math.max(1, span.until - span.since)) * W;
  const y = (value: number) => (tall - bottom) * (1 - value / top) + 1;
  const shown = chosen ?? points.at(-1);
  const look = (clientX: number, box: DOMRect) => {
    const at = span.since + ((clientX - box.left) / Math.max(1, box.width)) * (span.until - span.since);
    choose(points.find((point) => Date.parse(point.at) + span.step >= at) ?? null);
  };
  return (
    <figure ref={figure} className="timeline" data-testid="timeline" data-template={item.template}>
      <svg
        viewBox={`0 0 ${W} ${tall}`}
        role="img"
        aria-label={described(item)}
        onPointerMove={(event) => look(event.clientX, event.currentTarget.getBoundingClientRect())}
        onPointerLeave={() => choose(null)}
      >
        {[...LAYERS].reverse().map((layer) => (
          <path
            key={layer}
            className={`timeline-${layer}`}
            d={stretches(points, span.step)
              .map((some) => area(some, layer, span.step, x, y))
              .join(" ")}
          />
        ))}
        {near && <line className="timeline-cap" x1="0" x2={W} y1={y(cap)} y2={y(cap)} />}
        <line className="timeline-peak" x1="0" x2={W} y1={y(peak)} y2={y(peak)} />
        {near && (
          <text className="histogram-text timeline-label" x={W - 2} y={y(cap) + 4} textAnchor="end" aria-hidden="true">
            cap {cap}
          </text>
        )}
        {y(peak) > LABEL && (
          <text className="histogram-text" x="2" y={y(peak) - 4} aria-hidden="true">
            {peak}
          </text>
        )}
        {chosen && (
          <line
            className="timeline-here"
            x1={x(Date.parse(chosen.at))}
            x2={x(Date.parse(chosen.at))}
            y1="0"
            y2={tall - bottom}
          />
        )}
        <line className="histogram-axis" x1="0" x2={W} y1={tall - bottom + 1} y2={tall - bottom + 1} />
        <Hours span={span} x={x} narrow={W < NARROW} bottom={tall - 3} />
      </svg>
      <Legend point={shown} cap={near ? null : (shown?.max_nodes ?? cap)} />
    </figure>
  );
}

/** Steps, not slopes: a node is there or it isn't. Layers are drawn from the tallest to the lowest, over each other. */
function area(
  points: readonly PoolPoint[],
  layer: Layer,
  step: number,
  x: (at: number) => number,
  y: (value: number) => number,
): string {
  const first = points[0];
  if (!first) return "";
  const words = [`M${x(Date.parse(first.at)).toFixed(1)} ${y(0).toFixed(1)}`];
  let end = 0;
  for (const point of points) {
    const from = Date.parse(point.at);
    end = from + step;
    words.push(`L${x(from).toFixed(1)} ${y(height(point, layer)).toFixed(1)} H${x(end).toFixed(1)}`);
  }
  return `${words.join(" ")} V${y(0).toFixed(1)} Z`;
}

const EVERY = [1 / 60, 1 / 30, 1 / 12, 1 / 6, 1 / 4, 1 / 2, 1, 2, 3].map((hours) => hours * HOUR);

interface HoursProps {
  span: Span;
  x: (at: number) => number;
  narrow: boolean;
  bottom: number;
}

function Hours({ span, x, narrow, bottom }: HoursProps) {
  const wanted = (span.until - span.since) / (narrow ? 4 : 8);
  const every = EVERY.find((each) => each >= wanted) ?? 6 * HOUR;
  const zone = new Date(span.since).getTimezoneOffset() * 60_000;
  const first = Math.ceil((span.since - zone) / every) * every + zone;
  const marks = Array.from(
    { length: Math.max(0, Math.ceil((span.until - first) / every)) },
    (_, n) => first + n * every,
  );
  return marks
    .filter((at) => x(at) > 14 && at < span.until - every / 6)
    .map((at) => (
      <text key={at} className="histogram-text" x={x(at)} y={bottom} textAnchor="middle" aria-hidden="true">
        {clockTime(new Date(at).toISOString())}
      </text>
    ));
}

/** `cap`: null where the chart itself shows it. */
function Legend({ point, cap }: { point: PoolPoint | undefined; cap: number | null }) {
  if (!point) return <figcaption className="faint">no samples yet</figcaption>;
  return (
    <figcaption>
      <ul className="pool-legend">
        {LAYERS.map((layer) => (
          <li key={layer}>
            <i className={`timeline-${layer}`} /> {point[layer]} {layer}
          </li>
        ))}
        {cap !== null && <li className="faint">cap {cap}</li>}
        <li className="faint timeline-at">at {clockTime(point.at)}</li>
      </ul>
    </figcaption>
  );
}

/** Each provision of the day: when its nodes were ready, and how long that took. */
export function ReadyChart({ item, span }: { item: TemplateHistory; span: Span }) {
  const [figure, W] = useWidth();
  const ready = item.ready ?? [];
  if (ready.length === 0) return <p className="calm">No provision got its nodes in the last 24 hours.</p>;
  const sorted = ready.map((each) => each.seconds).sort((a, b) => a - b);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  const longest = Math.max(0.1, sorted.at(-1) ?? 0);
  const since = Math.min(span.since, ...ready.map((each) => Date.parse(each.at)));
  const x = (at: number) => ((at - since) / Math.max(1, span.until - since)) * (W - 8) + 4;
  const y = (value: number) => (HEIGHT - BOTTOM - 10) * (1 - Math.sqrt(value / longest)) + 7;
  const warm = ready.filter((each) => each.warm === each.nodes).length;
  const words = `${counted(ready.length, "provision")}: half were ready within ${took(middle)}, all within ${took(longest)}`;
  return (
    <figure ref={figure} className="timeline" data-testid="ready-chart">
      <svg viewBox={`0 0 ${W} ${HEIGHT}`} role="img" aria-label={words}>
        <line className="timeline-middle" x1="0" x2={W} y1={y(middle)} y2={y(middle)} />
        <text className="histogram-text" x={W - 2} y={Math.max(11, y(middle) - 4)} textAnchor="end" aria-hidden="true">
          p50 {took(middle)}
        </text>
        {ready.map((each, index) => (
          <circle
            key={index}
            className={each.warm === each.nodes ? "ready-warm" : "ready-cold"}
            cx={x(Date.parse(each.at))}
            cy={y(each.seconds)}
            r="3.5"
          >
            <title>{`${took(each.seconds)} for ${counted(each.nodes, "node")}, ${each.warm} warm, ${clockTime(each.at)}`}</title>
          </circle>
        ))}
        <line className="histogram-axis" x1="0" x2={W} y1={HEIGHT - BOTTOM + 1} y2={HEIGHT - BOTTOM + 1} />
        <Hours span={{ ...span, since }} x={x} narrow={W < NARROW} bottom={HEIGHT - 3} />
      </svg>
      <figcaption>
        <ul className="pool-legend">
          <li>
            <i className="ready-warm" /> {warm} all warm
          </li>
          <li>
            <i className="ready-cold" /> {ready.length - warm} with new nodes
          </li>
          <li className="faint">longest {took(longest)}</li>
        </ul>
      </figcaption>
    </figure>
  );
}

/** The day in the height of a row: what was at work. */
export function Sparkline({ item, span }: { item: TemplateHistory; span: Span }) {
  const [W, H] = [96, 20];
  const use = (point: PoolPoint) => point.running + point.booting + point.other;
  const peak = Math.max(...item.points.map(use), 0);
  if (peak === 0) return <span className="faint">–</span>;
  const x = (at: number) => ((at - span.since) / Math.max(1, span.until - span.since)) * W;
  const path = stretches(item.points, span.step)
    .map((some) =>
      some
        .map(
          (point, n) =>
            `${n === 0 ? `M${x(Date.parse(point.at)).toFixed(1)} ${H} L` : "L"}${x(Date.parse(point.at)).toFixed(1)} ${(H - 1 - (use(point) / peak) * (H - 3)).toFixed(1)} h${((span.step / (span.until - span.since)) * W).toFixed(1)}`,
        )
        .join(" ")
        .concat(` V${H} Z`),
    )
    .join(" ");
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${W} ${H}`}
      width={W}
      height={H}
      role="img"
      aria-label={`at most ${counted(peak, "node")} in use in the last 24 hours`}
    >
      <path d={path} />
    </svg>
  );
}
