/** Why a boot failed: the cause in a sentence, the line that proves it, what to do. */

import type { Diagnosis } from "../api/types";
import { capital, plain } from "../words/names";
import { Prose } from "./words";

export function DiagnosisCard({ diagnosis }: { diagnosis: Diagnosis }) {
  const { evidence } = diagnosis;
  return (
    <div className="diagnosis" data-testid="diagnosis" data-cause={diagnosis.cause}>
      <p className="diagnosis-summary">
        <Prose>{diagnosis.summary}</Prose>
      </p>
      {evidence && (
        <figure className="evidence">
          <figcaption className="faint">
            Line {evidence.line} of the section “{capital(plain(evidence.section))}”
          </figcaption>
          <pre>{evidence.text}</pre>
        </figure>
      )}
      <p>
        <strong>What to do:</strong> <Prose>{diagnosis.advice}</Prose>.
      </p>
    </div>
  );
}
