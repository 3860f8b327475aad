/** Why an operation failed: the reason, the message, what to do. */

import type { Failure } from "../api/types";
import { plain } from "../words/names";
import { DiagnosisCard } from "./diagnosis";
import { Badge, NodeLink } from "./words";

export function FailureCard({ error }: { error: Failure }) {
  return (
    <section className="failed card tone-danger" aria-label="Why it failed" data-testid="operation-error">
      <header className="card-head">
        <h2>
          <Badge tone="danger">{plain(error.code)}</Badge>
          {error.reason && <> {error.help ? <a href={error.help}>{plain(error.reason)}</a> : plain(error.reason)}</>}
        </h2>
        {error.node_id && (
          <span>
            on <NodeLink id={error.node_id} full />
          </span>
        )}
      </header>
      <p className="failed-message">
        <bdi>{error.message}</bdi>
      </p>
      {error.diagnosis ? (
        <DiagnosisCard diagnosis={error.diagnosis} />
      ) : (
        error.advice && (
          <p>
            <strong>What to do:</strong> {error.advice}.
          </p>
        )
      )}
    </section>
  );
}
