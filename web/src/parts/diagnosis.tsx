/** Why a boot failed: the cause in a sentence, the line that proves it, what to do. */

import type { Diagnosis } from "../api/types";
import { plain } from "../words/names";

export function DiagnosisCard({ diagnosis }: { diagnosis: Diagnosis }) {
  const { evidence } = diagnosis;
  return (
    <div className="diagnosis" data-testid="diagnosis" data-cause={diagnosis.cause}>
      <p className="diagnosis-summary">
        <bdi>{diagnosis.summary}</bdi>
      </p>
      {evidence && (
        <figure className="evidence">
          <figcaption className="faint">
            {plain(evidence.section)}, line {evidence.line}
          </figcaption>
          <pre>{evidence.text}</pre>
        </figure>
      )}
      <p>
        <strong>What to do:</strong> <bdi>{diagnosis.advice}</bdi>.
      </p>
    </div>
  );
}
