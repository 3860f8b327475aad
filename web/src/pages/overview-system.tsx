/** What the verdict rests on: do providers and the store answer, do the background tasks run on time. */

import type { Duty, Overview, ProviderFigures, Tone } from "../api/types";
import { Card, Figure } from "../parts/facts";
import { Ago, Badge } from "../parts/words";
import { counted, plain } from "../words/names";
import { given } from "../words/time";

const ms = (value: number | null | undefined) => (typeof value === "number" ? `≤ ${value} ms` : "–");

export function SystemCard({ overview }: { overview: Overview }) {
  const { duties, providers, store } = overview;
  if (!duties && !providers && !store) return null;
  return (
    <Card title="System" id="system">
      <div className="figures-row">
        {providers?.map((each) => (
          <Provider key={each.name} figures={each} />
        ))}
        {store && (
          <Figure
            name="Store, p95"
            value={ms(store.p95_ms)}
            note={store.errors > 0 ? `${counted(store.errors, "error")} of ${store.calls}` : `p50 ${ms(store.p50_ms)}`}
            tone={alarming(store.tone)}
          />
        )}
      </div>
      {providers?.map(
        (each) =>
          each.errors > 0 &&
          each.last_error && (
            <p key={each.name} className="last-error">
              <span className="faint">{each.name} said last:</span> <bdi className="mono">{each.last_error}</bdi>
            </p>
          ),
      )}
      {duties && <Duties duties={duties} />}
    </Card>
  );
}

/** The server judges, by the limits that its verdict goes by. */
const alarming = (tone: Tone | undefined) => (tone === "warning" || tone === "danger" ? tone : "");

function Provider({ figures }: { figures: ProviderFigures }) {
  const rate = figures.error_rate;
  const known = typeof rate === "number";
  const throttled = figures.throttled > 0 ? ` · ${figures.throttled} throttled` : "";
  return (
    <Figure
      name={`${figures.name}, errors`}
      value={known ? `${Math.round(100 * rate)} %` : "–"}
      note={`${counted(figures.calls, "call")} in ${given(figures.window_seconds)}${throttled}`}
      tone={alarming(figures.tone)}
    />
  );
}

function Duties({ duties }: { duties: readonly Duty[] }) {
  const late = duties.filter((duty) => duty.late || duty.problem);
  return (
    <details className="duties" open={late.length > 0}>
      <summary>
        {late.length === 0 ? (
          <Badge tone="success">all {duties.length} background tasks on time</Badge>
        ) : (
          <Badge tone="danger">
            {late.length} of {duties.length} background tasks late
          </Badge>
        )}
      </summary>
      <ul>
        {duties.map((duty) => (
          <li key={duty.name} data-duty={duty.name} data-late={duty.late}>
            <span>{plain(duty.name)}</span>
            <span className="faint">every {given(duty.every_seconds)}</span>
            <span className={duty.late ? "tone-danger" : ""}>
              {duty.last_tick_at ? <Ago at={duty.last_tick_at} /> : "not yet"}
            </span>
            {duty.problem && (
              <span className="duty-problem">
                <bdi>{duty.problem}</bdi>
              </span>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}
