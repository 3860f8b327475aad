/** Two charts, drawn as plain SVG: where the time of one boot went, and how long a template's boots take. */

import type { Distribution, Span, Timeline } from "../api/types";
import { counted, plain } from "../words/names";
import { given, took } from "../words/time";
import { useNarrow } from "./virtual";

const GROWN_LAST = 0.002;

/** `boot_script: warming caches` is a step inside of a phase that was named before. */
function named(span: Span): string {
  const [phase, step] = span.name.split(/: (.*)/s);
  return step ? `› ${step}` : plain(phase ?? "");
}

/** A row per phase, each bar where it lay in time; the usual boot is marked. */
export function BootChart({ timeline, live }: { timeline: Timeline; live: boolean }) {
  const longest = Math.max(timeline.seconds, timeline.usual?.p95 ?? 0, 0.001);
  const starts: number[] = [];
  timeline.spans.reduce((at, span) => (starts.push(at), at + span.seconds), 0);
  return (
    <figure className="boot" aria-label={`Boot, ${took(timeline.seconds)}${live ? " so far" : ""}`}>
      <ol>
        {timeline.spans.map((span, index) => {
          const last = live && index === timeline.spans.length - 1;
          return (
            <li key={index}>
              <span className="boot-name">
                <bdi>{named(span)}</bdi>
              </span>
              <span className="boot-lane">
                <span
                  className={`boot-bar ${last ? "boot-live" : ""}`}
                  style={{
                    left: `${(100 * (starts[index] ?? 0)) / longest}%`,
                    width: `${100 * Math.max(GROWN_LAST, span.seconds / longest)}%`,
                  }}
                />
              </span>
              <span className="boot-time figures">{took(span.seconds)}</span>
            </li>
          );
        })}
        <li className="boot-total">
          <span className="boot-name">{live ? "so far" : "in all"}</span>
          <span className="boot-lane">{timeline.usual && <Marks usual={timeline.usual} longest={longest} />}</span>
          <span className="boot-time figures">{took(timeline.seconds)}</span>
        </li>
      </ol>
      {timeline.usual && (
        <figcaption className="faint">
          Boots of this type take {took(timeline.usual.p50)} (p50) or {took(timeline.usual.p95)} (p95), of{" "}
          {counted(timeline.usual.count, "boot")}.
        </figcaption>
      )}
    </figure>
  );
}

const CLOSE = 0.14;

/** p50 and p95; where they lie close together, or p95 at the edge, each has its label on its own side. */
function Marks({ usual, longest }: { usual: Distribution; longest: number }) {
  const share = (value: number) => Math.min(1, value / longest);
  const apart = share(usual.p95) - share(usual.p50) >= CLOSE;
  const marks = [
    { name: "p50", value: usual.p50, left: !apart && share(usual.p50) > CLOSE / 2 },
    { name: "p95", value: usual.p95, left: apart && share(usual.p95) > 1 - CLOSE / 2 },
  ];
  return marks.map(({ name, value, left }) => (
    <i
      key={name}
      className={`boot-mark ${left ? "boot-mark-left" : ""}`}
      style={{ left: `${100 * share(value)}%` }}
      title={`${name}: ${took(value)}`}
    >
      {name}
    </i>
  ));
}

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Bins of a round width, from zero or near to what was seen, at most `most` of them. */
export function bins(values: readonly number[], most = 24): Bin[] {
  const finite = values.filter((value) => Number.isFinite(value) && value >= 0);
  if (finite.length === 0) return [];
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const width = rounded(Math.max((high - low) / Math.max(4, most - 2), high / 500, 0.01));
  const first = Math.floor(low / width);
  const found = Array.from({ length: Math.floor(high / width) - first + 1 }, (_, index) => ({
    from: (first + index) * width,
    to: (first + index + 1) * width,
    count: 0,
  }));
  for (const value of finite) {
    const bin = found[Math.min(found.length - 1, Math.max(0, Math.floor(value / width) - first))];
    if (bin) bin.count += 1;
  }
  return found;
}

function rounded(width: number): number {
  const power = 10 ** Math.floor(Math.log10(width));
  const factor = [1, 2, 2.5, 5, 10].find((each) => each * power >= width - 1e-12) ?? 10;
  return factor * power;
}

const WIDE = 720;
const NARROW = 360;
const H = 218;
const TOP = 72; // four rows of labels above the bars
const BOTTOM = 22;

/** The deadline is drawn in; if it lies far beyond what was seen, at the edge, with an arrow. */
export function Histogram({
  seconds,
  total,
  deadline,
}: {
  seconds: readonly number[];
  total: Distribution;
  deadline: { seconds: number; source: string };
}) {
  const W = useNarrow() ? NARROW : WIDE; // text keeps its size on a phone
  const found = bins(seconds);
  const first = found[0];
  const last = found.at(-1);
  if (!first || !last) return null;
  const low = first.from;
  const reach = last.to - low;
  const far = deadline.seconds > last.to + 0.6 * reach;
  const high = far ? last.to + 0.25 * reach : Math.max(last.to, deadline.seconds + 0.08 * reach);
  const most = Math.max(...found.map((bin) => bin.count));
  const x = (value: number) => ((value - low) / (high - low)) * W;
  const marks = [
    { name: "p50", value: total.p50, row: 0 },
    { name: "p95", value: total.p95, row: 1 },
    { name: "p99", value: total.p99, row: 2 },
  ].filter((mark) => mark.value >= low && mark.value <= high);
  const deadlineAt = far ? W - 1 : x(deadline.seconds);
  const words = `Boot times of ${total.count} boots: p50 ${took(total.p50)}, p95 ${took(total.p95)}, p99 ${took(total.p99)}; deadline ${given(deadline.seconds)}`;
  return (
    <figure className="histogram">
      <svg viewBox={`0 0 ${W} ${H}`} role="img" aria-label={words} preserveAspectRatio="xMidYMid meet">
        {found.map((bin) => (
          <rect
            key={bin.from}
            className="histogram-bin"
            x={x(bin.from) + 1}
            width={Math.max(1, x(bin.to) - x(bin.from) - 2)}
            y={H - BOTTOM - (bin.count / most) * (H - TOP - BOTTOM)}
            height={(bin.count / most) * (H - TOP - BOTTOM)}
            rx="2"
          >
            <title>{`${bin.count} between ${took(bin.from)} and ${took(bin.to)}`}</title>
          </rect>
        ))}
        <line className="histogram-axis" x1="0" x2={W} y1={H - BOTTOM} y2={H - BOTTOM} />
        <text className="histogram-text" x="0" y={H - 6}>
          {took(low)}
        </text>
        <text className="histogram-text" x={x(last.to)} y={H - 6} textAnchor={far ? "middle" : "end"}>
          {took(last.to)}
        </text>
        {marks.map((mark) => {
          const end = x(mark.value) > W * 0.8;
          return (
            <g key={mark.name} className={`histogram-mark histogram-${mark.name}`}>
              <line x1={x(mark.value)} x2={x(mark.value)} y1={mark.row * 13 + 4} y2={H - BOTTOM} />
              <text x={x(mark.value) + (end ? -5 : 5)} y={mark.row * 13 + 12} textAnchor={end ? "end" : "start"}>
                {mark.name} {took(mark.value)}
              </text>
            </g>
          );
        })}
        {found.map(
          (bin) =>
            bin.count > 0 && (
              <text
                key={bin.from}
                className="histogram-text"
                x={(x(bin.from) + x(bin.to)) / 2}
                y={H - BOTTOM - (bin.count / most) * (H - TOP - BOTTOM) - 4}
                textAnchor="middle"
                aria-hidden="true"
              >
                {bin.count}
              </text>
            ),
        )}
        <g className="histogram-deadline">
          <line x1={deadlineAt} x2={deadlineAt} y1="4" y2={H - BOTTOM} />
          <text x={deadlineAt - 6} y={3 * 13 + 12} textAnchor={deadlineAt > W / 3 ? "end" : "start"}>
            deadline {given(deadline.seconds)}
            {far ? " →" : ""}
          </text>
        </g>
      </svg>
      <figcaption className="faint">
        {counted(total.count, "boot")} · longest {took(total.longest)} · deadline {given(deadline.seconds)} (
        {deadline.source})
      </figcaption>
    </figure>
  );
}
