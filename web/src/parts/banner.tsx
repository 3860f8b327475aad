/** An operation at a glance: `Step 3/5 · Booting and attaching · 0m 12s`, its words, its bar, its chips. */

import { post } from "../api/client";
import type { Operation } from "../api/types";
import { useNow } from "../live/ticking";
import { Link, to } from "../routing/router";
import { capital, ended, plain, toneOfStatus, where } from "../words/names";
import { about, seconds } from "../words/time";
import { Act } from "./act";
import { ProgressBar } from "./bar";
import { Chips } from "./chips";
import { ToneSign } from "./icons";
import { Portal } from "./portal";
import { Lasted, Name, TemplateLink } from "./words";

const TO_THE_END = ["release", "cluster_delete"]; // half of it is of no use: the server refuses to cancel it

/** The time left, counted down between two words of the server; none rather than a made-up one. */
function Eta({ operation }: { operation: Operation }) {
  const now = useNow();
  const passed = seconds(operation.updated_at, now) ?? 0;
  const eta = operation.eta_seconds;
  if (typeof eta !== "number" || ended(operation.status)) return null;
  const left = eta - Math.max(0, passed);
  return <span className="banner-eta">{left > 0.5 ? `about ${about(left)} left` : "any moment now"}</span>;
}

export function Title({ operation }: { operation: Operation }) {
  const run = operation.run ?? operation.detail?.run ?? operation.detail?.cluster;
  const template = operation.template ?? operation.detail?.template;
  return (
    <>
      {capital(plain(operation.kind))}
      {run && (
        <>
          {" · "}
          <Name>{run}</Name>
        </>
      )}
      {template && (
        <span className="faint">
          {" · "}
          <TemplateLink name={template} />
        </span>
      )}
    </>
  );
}

interface BannerProps {
  operation: Operation;
  /** With its name and its failure; else the page around it tells them. */
  detailed?: boolean;
  parts?: boolean;
}

export function Banner({ operation, detailed = true, parts = true }: BannerProps) {
  const id = operation.operation_id;
  const over = ended(operation.status);
  // What it waited for is of no interest once it failed.
  const said = operation.error ? (detailed ? operation.error.message : "") : operation.message;
  const cancellable = !over && !operation.committed_at && !TO_THE_END.includes(operation.kind);
  const cancelling = Boolean(operation.cancel_requested_at) && !over;
  return (
    <article
      className={`banner card tone-${toneOfStatus(operation.status)} ${over ? "banner-over" : ""}`}
      data-testid="operation-banner"
      data-operation-id={id}
      data-status={operation.status}
      data-percent={operation.percent ?? ""}
      aria-label={`${operation.kind} ${operation.run ?? operation.detail?.cluster ?? ""}`.trim()}
    >
      <header className="banner-head">
        <ToneSign tone={toneOfStatus(operation.status)} />
        <div className="banner-words">
          {detailed && (
            <h3>
              <Title operation={operation} />
            </h3>
          )}
          <p className="banner-step">
            <strong>{where(operation)}</strong>
            {" · "}
            <Lasted since={operation.started_at} until={over ? (operation.ended_at ?? operation.updated_at) : null} />
            {cancelling && <span className="faint"> · cancelling</span>}
          </p>
          {said && (
            <p className="banner-message">
              <bdi>{said}</bdi>
            </p>
          )}
        </div>
        <div className="banner-acts">
          {cancellable && !cancelling && (
            <Act
              needs="operator"
              act={() => post(`/operations/${encodeURIComponent(id)}/cancel`)}
              confirm={{
                title: `Cancel this ${plain(operation.kind)}?`,
                text: "It stops where it is. What it took or made so far is given back.",
                yes: "Cancel it",
                no: "Keep it running",
              }}
            >
              Cancel
            </Act>
          )}
          {!over && <Portal url={operation.detail?.console_url} />}
          {detailed && (
            <Link className="button" href={to("operations", id)} aria-label={`Details of ${operation.run ?? id}`}>
              Details
            </Link>
          )}
        </div>
      </header>
      {(operation.status === "running" || operation.status === "succeeded") && (
        <div className="banner-bar">
          <ProgressBar progress={operation} name={where(operation)} />
          <Eta operation={operation} />
        </div>
      )}
      {parts && <Chips parts={operation.parts} />}
    </article>
  );
}
