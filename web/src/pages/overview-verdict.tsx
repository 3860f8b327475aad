/** The verdict in one line: is it us, the cloud or a runtime; then whatever else was found, present trouble first. */

import type { ReactNode } from "react";
import { post, send } from "../api/client";
import type { Acknowledged, FailureGroup, Finding, Overview } from "../api/types";
import { Act } from "../parts/act";
import { Copy } from "../parts/copy";
import { ToneSign } from "../parts/icons";
import { Ago, By, NodeLink, OperationLink, Prose, TemplateLink } from "../parts/words";
import { capital } from "../words/names";

const CULPRITS: Record<string, string> = {
  us: "Muster itself",
  machine: "this machine",
  cloud: "the cloud",
  runtime: "its runtime",
  template: "a template",
  operator: "held by an operator",
  demand: "demand",
};

async function report(): Promise<string> {
  return (await send("/overview/report", { headers: { Accept: "text/markdown" } })).text();
}

/** The failures behind a finding: both name the same example. */
export function behind(finding: Finding, overview: Overview): FailureGroup | undefined {
  const id = finding.code === "failures" ? finding.about?.id : undefined;
  if (!id) return undefined;
  return overview.failures?.hour.groups.find(
    (group) => group.example_node_id === id || group.example_operation_id === id,
  );
}

export function Verdict({ overview, refresh }: { overview: Overview; refresh: () => void }) {
  const { verdict } = overview;
  if (!verdict) return null;
  const others = (overview.findings ?? []).filter(
    (finding) => finding.code !== verdict.code || finding.text !== verdict.text,
  );
  const present = others.filter((finding) => !finding.over);
  const past = others.filter((finding) => finding.over);
  return (
    <section
      className={`verdict card tone-${verdict.tone}`}
      data-testid="verdict"
      data-tone={verdict.tone}
      data-code={verdict.code}
      aria-label="Verdict"
    >
      <div className="verdict-main">
        <ToneSign tone={verdict.tone} />
        <div className="verdict-words" role="status">
          <p className="verdict-text">
            {CULPRITS[verdict.culprit] && <span className="verdict-culprit">{CULPRITS[verdict.culprit]}</span>}
            <Prose>{verdict.text}</Prose>
          </p>
          <Evidence group={behind(verdict, overview)} />
          {(verdict.advice || verdict.about) && (
            <p className="verdict-advice">
              <Prose>{verdict.advice}</Prose> <About finding={verdict} />
            </p>
          )}
        </div>
        <div className="verdict-acts">
          <Acknowledge finding={verdict} refresh={refresh} />
          <Copy text={report}>Copy as incident report</Copy>
        </div>
      </div>
      <Findings findings={present} overview={overview} refresh={refresh} />
      {past.length > 0 && <h3 className="findings-past">Earlier</h3>}
      <Findings findings={past} overview={overview} refresh={refresh} />
      <Seen given={overview.acknowledged ?? []} refresh={refresh} />
    </section>
  );
}

function Findings({
  findings,
  overview,
  refresh,
}: {
  findings: readonly Finding[];
  overview: Overview;
  refresh: () => void;
}) {
  if (findings.length === 0) return null;
  return (
    <ul className="findings">
      {findings.map((finding, index) => (
        <li key={`${finding.code}-${index}`} className={`tone-${finding.tone}`}>
          <ToneSign tone={finding.tone} />
          <span>
            <Prose>{finding.text}</Prose>{" "}
            <span className="faint">
              <Prose>{finding.advice}</Prose>
            </span>{" "}
            <About finding={finding} />
            <Evidence group={behind(finding, overview)} />
          </span>
          <Acknowledge finding={finding} refresh={refresh} />
        </li>
      ))}
    </ul>
  );
}

/** The line that proves it. */
function Evidence({ group }: { group: FailureGroup | undefined }) {
  if (!group?.detail) return null;
  return (
    <span className="line-detail mono">
      <bdi>{group.detail}</bdi>
    </span>
  );
}

/** All that is well needs no acknowledgement, and has no advice either. */
function Acknowledge({ finding, refresh }: { finding: Finding; refresh: () => void }) {
  const { id } = finding;
  if (!id || !finding.advice) return null;
  return (
    <Act needs="operator" act={() => post(`/findings/${encodeURIComponent(id)}/acknowledge`)} done={refresh}>
      Acknowledge<span className="unseen"> {finding.text}</span>
    </Act>
  );
}

function Seen({ given, refresh }: { given: readonly Acknowledged[]; refresh: () => void }) {
  if (given.length === 0) return null;
  return (
    <details className="findings-seen" data-testid="acknowledged">
      <summary>{given.length} acknowledged</summary>
      <ul className="findings">
        {given.map(({ finding, by, at }) => (
          <li key={finding.id} className={`tone-${finding.tone}`}>
            <ToneSign tone={finding.tone} />
            <span>
              <Prose>{finding.text}</Prose>{" "}
              <span className="faint">
                <By who={by} />, <Ago at={at} />
              </span>
            </span>
            <Act
              needs="operator"
              act={() => post(`/findings/${encodeURIComponent(finding.id ?? "")}/unacknowledge`)}
              done={refresh}
            >
              Show again<span className="unseen"> {finding.text}</span>
            </Act>
          </li>
        ))}
      </ul>
    </details>
  );
}

function About({ finding }: { finding: Finding }) {
  const about = finding.about;
  if (!about) return null;
  const links: Record<string, ReactNode> = {
    node: <NodeLink id={about.id} />,
    operation: <OperationLink id={about.id} />,
    template: <TemplateLink name={about.id} />,
  };
  const link = links[about.kind];
  return link ? (
    <span className="finding-about">
      {capital(about.kind)} {link}
    </span>
  ) : null;
}
