/** Why an operation failed: the reason, the message, what to do. */

import type { Failure } from "../api/types";
import { capital, plain } from "../words/names";
import { DiagnosisCard } from "./diagnosis";
import { Badge, NodeLink, Prose } from "./words";

/** A diagnosis says it better than the message: with the line that proves it. */
export function FailureCard({ error }: { error: Failure }) {
  const reason = capital(plain(error.reason || error.code));
  return (
    <section className="failed card tone-danger" aria-label="Why it failed" data-testid="operation-error">
      <header className="card-head">
        <h2>
          <Badge tone="danger">{error.help ? <a href={error.help}>{reason}</a> : reason}</Badge>
        </h2>
        {error.node_id && (
          <span>
            on <NodeLink id={error.node_id} full />
          </span>
        )}
      </header>
      {error.diagnosis ? (
        <DiagnosisCard diagnosis={error.diagnosis} />
      ) : (
        <>
          <p className="failed-message">
            <Prose>{capital(error.message)}</Prose>
          </p>
          {error.advice && (
            <p>
              <strong>What to do:</strong> <Prose>{`${error.advice}.`}</Prose>
            </p>
          )}
        </>
      )}
    </section>
  );
}
