/** When there is nothing to show, nothing yet, or something went wrong: what it means and what to do. */

import type { ReactNode } from "react";
import { Refused, Unreachable } from "../api/client";
import { useConnection } from "../live/history";
import { Link } from "../routing/router";
import { ToneSign } from "./icons";
import { Prose } from "./words";

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children && <div className="empty-text">{children}</div>}
    </div>
  );
}

export function Loading({ rows = 3 }: { rows?: number }) {
  return (
    <div className="loading" role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

export function NotFound({ what, id }: { what: string; id?: string }) {
  return (
    <section className="not-found" data-testid="not-found">
      <h1>There is no such {what}</h1>
      {id && (
        <p>
          <bdi className="mono name">{id}</bdi>
        </p>
      )}
      <p className="faint">
        {what === "page"
          ? "The address may be mistyped or incomplete."
          : "It may have been removed after its time, belong to another installation, or the link may be incomplete."}
      </p>
      <p>
        <Link className="button" href="/">
          To the overview
        </Link>
      </p>
    </section>
  );
}

export function Trouble({ error, retry }: { error: Error; retry?: () => void }) {
  const lost = useConnection().kind === "lost";
  if (lost && error instanceof Unreachable) return null; // the banner at the top says it, once
  const advice =
    error instanceof Unreachable
      ? "The page tries again by itself as soon as the connection is back."
      : error instanceof Refused && error.status === 403
        ? "Sign in with a token whose role allows it."
        : error instanceof Refused && error.status >= 500
          ? "Look at the server's log, or run `muster doctor` on its machine."
          : "";
  return (
    <div className="trouble tone-danger" role="alert">
      <ToneSign tone="danger" />
      <div>
        <p>
          <Prose>{error.message}</Prose>
        </p>
        {advice && (
          <p className="faint">
            <Prose>{advice}</Prose>
          </p>
        )}
      </div>
      {retry && (
        <button type="button" className="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What was read; else that it is being read, or why it can't be. Old data stays with a word about the trouble. */
export function Shown<T>({
  read,
  children,
  rows,
}: {
  read: { data: T | undefined; error: Error | undefined; refresh: () => void };
  children: (data: T) => ReactNode;
  rows?: number;
}) {
  return (
    <>
      {read.error && <Trouble error={read.error} retry={read.refresh} />}
      {read.data !== undefined ? children(read.data) : !read.error && <Loading {...(rows !== undefined && { rows })} />}
    </>
  );
}
