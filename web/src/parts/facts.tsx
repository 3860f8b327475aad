/** Names and values, in two columns; what is not known is left out. */

import type { ReactNode } from "react";

export function Facts({ children }: { children: ReactNode }) {
  return <dl className="facts">{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (children === null || children === undefined || children === "" || children === false) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Figure({
  name,
  value,
  note,
  tone,
}: {
  name: string;
  value: ReactNode;
  note?: ReactNode;
  tone?: string;
}) {
  return (
    <div className={`figure ${tone ? `tone-${tone}` : ""}`}>
      <span className="figure-name">{name}</span>
      <span className="figure-value">{value}</span>
      {note && <span className="figure-note">{note}</span>}
    </div>
  );
}

export function Card({
  title,
  side,
  children,
  id,
}: {
  title?: ReactNode;
  side?: ReactNode;
  children: ReactNode;
  id?: string;
}) {
  return (
    <section className="card" {...(id && { "data-testid": id })}>
      {title && (
        <header className="card-head">
          <h2>{title}</h2>
          {side && <div className="card-side">{side}</div>}
        </header>
      )}
      {children}
    </section>
  );
}
