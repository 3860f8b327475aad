/** The overview's blocks about work: what waits, what failed, what is left over, what changed. */

import { type ReactNode, useState } from "react";
import { useAddress, setQuery } from "../routing/router";
import type { Change, FailureGroup, Failures, Leftover, Overview, Waiting } from "../api/types";
import { Card } from "../parts/facts";
import { Ago, Badge, By, Elapsed, NodeLink, OperationLink, Prose, TemplateLink } from "../parts/words";
import { capital, counted, plain } from "../words/names";

export function WaitingCard({ waiting }: { waiting: Waiting }) {
  return (
    <Card title="Waiting work" id="waiting" side={<Count count={waiting.count} more={waiting.more} />}>
      {waiting.reasons.length === 0 ? (
        <p className="calm">Nothing waits.</p>
      ) : (
        <ul className="lines">
          {waiting.reasons.map((each) => (
            <li key={each.reason}>
              <strong className="line-count figures">{each.count}</strong>
              <span className="line-words">
                {capital(plain(each.text || each.reason))}
                <span className="faint line-links">
                  {each.operation_ids.length > 1 ? "operations" : "operation"}
                  {each.operation_ids.map((id) => (
                    <OperationLink key={id} id={id} />
                  ))}
                </span>
              </span>
              <span className="line-side">
                oldest <Elapsed since={each.oldest_since} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Count({ count, more }: { count: number; more: boolean }) {
  return (
    <span className="figures">
      {count}
      {more && "+"}
    </span>
  );
}

/** The groups that no finding at the top tells of: nothing is said twice. */
export function untold(groups: readonly FailureGroup[], overview: Overview): FailureGroup[] {
  const findings = [...(overview.findings ?? []), ...(overview.acknowledged ?? []).map((each) => each.finding)];
  const told = new Set(findings.filter((each) => each.code === "failures").map((each) => each.about?.id));
  return groups.filter((each) => !told.has(each.example_node_id ?? "") && !told.has(each.example_operation_id ?? ""));
}

export function FailuresCard({
  failures,
  overview,
}: {
  failures: { hour: Failures; day: Failures };
  overview: Overview;
}) {
  const day = useAddress().query.get("failures") === "day";
  const shown = day ? failures.day : failures.hour;
  const groups = untold(shown.groups, overview);
  const above = shown.groups.length - groups.length;
  const side = (
    <fieldset className="segments">
      <legend className="unseen">Failures of the last</legend>
      {(["hour", "day"] as const).map((each) => (
        <label key={each}>
          <input
            type="radio"
            name="failures"
            checked={day === (each === "day")}
            onChange={() => setQuery({ failures: each === "day" ? "day" : null })}
          />
          <span>
            {each} · {failures[each].count}
            {failures[each].more && "+"}
          </span>
        </label>
      ))}
    </fieldset>
  );
  return (
    <Card title="Failures" side={side} id="failures">
      {above > 0 && <p className="calm">{counted(above, "cause")} listed at the top of this page.</p>}
      {groups.length === 0 ? (
        above === 0 && <p className="calm">No failures in the last {day ? "day" : "hour"}.</p>
      ) : (
        <ul className="lines">
          {groups.map((group) => (
            <FailureLine key={`${group.cause}-${group.template}-${group.revision}`} group={group} />
          ))}
        </ul>
      )}
    </Card>
  );
}

function FailureLine({ group }: { group: FailureGroup }) {
  return (
    <li data-cause={group.cause}>
      <strong className="line-count figures tone-danger">{group.count}</strong>
      <span className="line-words">
        <span>
          <strong>{capital(plain(group.cause))}</strong>
          {group.template && (
            <>
              {" in "}
              <TemplateLink name={group.template} revision={group.revision} />
            </>
          )}
        </span>
        {group.detail && (
          <span className="line-detail mono">
            <bdi>{group.detail}</bdi>
          </span>
        )}
        {group.advice && (
          <span className="faint">
            <Prose>{`${capital(group.advice)}.`}</Prose>
          </span>
        )}
        <span className="line-links faint">
          {group.count > 1 && "for example"}
          {group.example_node_id && (
            <span>
              node <NodeLink id={group.example_node_id} />
            </span>
          )}
          {group.example_operation_id && (
            <span>
              operation <OperationLink id={group.example_operation_id} />
            </span>
          )}
        </span>
      </span>
      <span className="line-side">
        <Ago at={group.last_at} />
      </span>
    </li>
  );
}

export function LeftoversCard({ leftovers }: { leftovers: NonNullable<Overview["leftovers"]> }) {
  const { stuck, orphans, terminating } = leftovers;
  const calm = stuck.count === 0 && orphans.count === 0;
  return (
    <Card
      title="Leftovers"
      id="leftovers"
      side={terminating > 0 && <span className="faint">{counted(terminating, "node")} terminating</span>}
    >
      {calm ? (
        <p className="calm">No orphans, and no termination is stuck.</p>
      ) : (
        <>
          <LeftoverLines title="Termination stuck" found={stuck} />
          <LeftoverLines title="Orphans" found={orphans} />
        </>
      )}
    </Card>
  );
}

function LeftoverLines({ title, found }: { title: string; found: { count: number; items: Leftover[] } }) {
  if (found.count === 0) return null;
  return (
    <>
      <h3>
        <Badge tone="warning">
          {title}: {found.count}
        </Badge>
      </h3>
      <ul className="lines">
        {found.items.map((each, index) => (
          <li key={each.node_id ?? each.machine_id ?? index}>
            <span className="line-words">
              {each.node_id ? <NodeLink id={each.node_id} full /> : <bdi className="mono name">{each.machine_id}</bdi>}
              <span className="faint">
                {[each.provider, each.template, each.reason && plain(each.reason)].filter(Boolean).join(" · ")}
                {each.detail && (
                  <>
                    {" · "}
                    <bdi>{each.detail}</bdi>
                  </>
                )}
              </span>
            </span>
            <span className="line-side">
              <Elapsed since={each.since} />
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** The page of a thing, if it has one. */
export function linkOf({ entity, entity_id }: Pick<Change, "entity" | "entity_id">): ReactNode {
  if (entity === "node") return <NodeLink id={entity_id} />;
  if (entity === "operation") return <OperationLink id={entity_id} />;
  return entity === "template" ? <TemplateLink name={entity_id} /> : null;
}

/** What was changed is the way to it; of several things it is the newest. */
function Changed({ change }: { change: Change }) {
  const link = linkOf(change);
  const named = change.text.startsWith(change.entity_id); // a name is written as it is
  const at = link ? change.text.indexOf(change.entity_id) : -1;
  if (at < 0) {
    return (
      <>
        <bdi>{named ? change.text : capital(change.text)}</bdi> {link}
      </>
    );
  }
  return (
    <>
      {capital(change.text.slice(0, at))}
      {link}
      <bdi>{change.text.slice(at + change.entity_id.length)}</bdi>
    </>
  );
}

const CHANGES_FIRST = 6;

export function Changes({ changes }: { changes: readonly Change[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? changes : changes.slice(0, CHANGES_FIRST);
  return (
    <Card title="What changed" id="changes" side={<span className="faint">last 24 hours</span>}>
      {changes.length === 0 ? (
        <p className="calm">No changes.</p>
      ) : (
        <ul className="lines">
          {shown.map((change) => (
            <li key={change.id}>
              <span className="line-words">
                <span>
                  <Changed change={change} />
                </span>
                {(change.who || change.detail) && (
                  <span className="faint">
                    {change.who && <By who={change.who} />} <bdi>{change.detail}</bdi>
                  </span>
                )}
              </span>
              <span className="line-side">
                <Ago at={change.at} />
              </span>
            </li>
          ))}
        </ul>
      )}
      {changes.length > shown.length && (
        <button type="button" className="button button-quiet" onClick={() => setAll(true)}>
          Show {changes.length - shown.length} more
        </button>
      )}
    </Card>
  );
}
