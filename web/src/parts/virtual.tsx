/** A list that stays fast with ten thousand rows: only those in sight, and a few around them, are in the page. */

import { type Key, type ReactNode, useEffect, useRef, useState } from "react";

const AROUND = 8;

export function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia("(max-width: 860px)").matches);
  useEffect(() => {
    const query = matchMedia("(max-width: 860px)");
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return narrow;
}

interface Props<T> {
  rows: readonly T[];
  height: number;
  label: string;
  columns: number;
  head: ReactNode;
  keyOf: (row: T) => Key;
  children: (row: T) => ReactNode;
  className: string;
  rowTestId: string;
}

export function VirtualTable<T>({
  rows,
  height,
  label,
  columns,
  head,
  keyOf,
  children,
  className,
  rowTestId,
}: Props<T>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, room: 800 });
  useEffect(() => {
    const inside = scroller.current;
    if (!inside) return undefined;
    let frame = 0;
    const look = () => {
      frame = 0;
      setView({ top: inside.scrollTop, room: inside.clientHeight || 800 });
    };
    const soon = () => {
      if (frame === 0) frame = requestAnimationFrame(look);
    };
    look();
    inside.addEventListener("scroll", soon, { passive: true });
    const sizes = new ResizeObserver(soon);
    sizes.observe(inside);
    return () => {
      cancelAnimationFrame(frame);
      inside.removeEventListener("scroll", soon);
      sizes.disconnect();
    };
  }, []);

  const first = Math.max(0, Math.min(rows.length - 1, Math.floor(view.top / height)) - AROUND);
  const last = Math.min(rows.length, Math.ceil((view.top + view.room) / height) + AROUND);
  return (
    <div
      className={`table ${className}`}
      role="table"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns}
    >
      <div role="rowgroup">
        <div className="table-row table-head" role="row" aria-rowindex={1}>
          {head}
        </div>
      </div>
      <div
        className="table-scroll"
        ref={scroller}
        role="rowgroup"
        tabIndex={0}
        aria-label={`Rows of ${label}`}
        style={{ maxHeight: rows.length * height }}
      >
        <div className="table-inside" role="presentation" style={{ height: rows.length * height }}>
          {rows.slice(first, last).map((row, index) => (
            <div
              key={keyOf(row)}
              className="table-row"
              role="row"
              aria-rowindex={first + index + 2}
              data-testid={rowTestId}
              style={{ transform: `translateY(${(first + index) * height}px)`, height }}
            >
              {children(row)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

/** `name` is its column, and its place in the row, wherever a narrow row has it. */
export function Cell({ children, name, tone = "" }: { children: ReactNode; name: string; tone?: string }) {
  return (
    <div role="cell" className={`cell cell-${name} ${tone && `tone-${tone}`}`} style={{ gridArea: name }}>
      {children}
    </div>
  );
}
