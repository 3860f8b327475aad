/** Jobs of CI: what waits, runs and was served, beside what their source counts itself; and why some have no machine. */

import {
  type FeedEvent,
  type Job,
  JOB_STATES,
  type JobSummary,
  type JobsServed,
  type Page,
  type Tone,
} from "../api/types";
import { useResource } from "../live/resource";
import { Card, Fact, Facts, Figure } from "../parts/facts";
import { Crumbs } from "../parts/crumbs";
import { Filter } from "../parts/filters";
import { SavedFilters } from "../parts/saved";
import { Empty, Loading, NotFound, Shown, Trouble } from "../parts/states";
import { Refused } from "../api/client";
import { Ago, Badge, Elapsed, Name, NodeLink, OperationLink, Prose, TemplateLink } from "../parts/words";
import { Link, to, useAddress } from "../routing/router";
import { capital, counted, plain } from "../words/names";
import { took } from "../words/time";

const LIMIT = 200;
const GAP = 1000;
const EVERY = 30_000; // what a source counts changes without an event
const BY_LABELS = "webhooks"; // the queue of jobs that no scale set has
const ofJobs = (event: FeedEvent) => event.entity === "job";

export function Jobs() {
  const { query } = useAddress();
  const summary = useResource<JobSummary>("/jobs/summary", { on: ofJobs, gap: 2000, every: EVERY });
  const state = query.get("state");
  const read = useResource<Page<Job>>("/jobs", { query: { state, limit: LIMIT }, on: ofJobs, gap: GAP });
  return (
    <>
      <header className="page-head">
        <h1>Jobs</h1>
        <div className="filters" role="search">
          <Filter name="state" label="State" options={JOB_STATES} usual="queued or running" />
          <SavedFilters />
        </div>
      </header>
      <Shown read={summary} rows={2}>
        {(found) => (
          <div className="stack">
            {ever(found) && <Served summary={found} />}
            <Unserved summary={found} />
            <Sources summary={found} />
          </div>
        )}
      </Shown>
      <Shown read={read} rows={6}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title={state ? `No job is ${plain(state)}` : "No job is queued or running"}>
              <p>
                Jobs of GitHub Actions appear here once a runner scale set or a webhook brings them:{" "}
                <code>[github]</code> in <code>muster.toml</code>.
              </p>
            </Empty>
          ) : (
            <Table jobs={page.items} more={page.next !== null} />
          )
        }
      </Shown>
    </>
  );
}

const rate = (value: number | null | undefined) => (typeof value === "number" ? `${Math.round(100 * value)} %` : "–");

/** Whether there is anything to count: without a source of jobs a row of zeros says nothing. */
const ever = ({ sources, queued, running, day }: JobSummary): boolean =>
  sources.length > 0 || queued + running + day.started > 0;

function Served({ summary }: { summary: JobSummary }) {
  const waited = (served: JobsServed, which: "p50" | "p95") => (served.waited ? took(served.waited[which]) : "–");
  return (
    <Card id="jobs-served">
      <div className="figures-row">
        <Figure name="Queued" value={summary.queued} {...(summary.more && { note: "and more" })} />
        <Figure name="Running" value={summary.running} />
        <Figure name="Served · hour" value={summary.hour.started} note={`${summary.day.started} in a day`} />
        <Figure
          name="Waited, p50 · hour"
          value={waited(summary.hour, "p50")}
          note={`p95 ${waited(summary.hour, "p95")}`}
        />
        <Figure
          name="Waited, p50 · day"
          value={waited(summary.day, "p50")}
          note={`p95 ${waited(summary.day, "p95")}`}
        />
        <Figure
          name="Warm hits · hour"
          value={rate(summary.hour.warm_rate)}
          note={`${rate(summary.day.warm_rate)} in a day`}
        />
      </div>
    </Card>
  );
}

function Unserved({ summary }: { summary: JobSummary }) {
  if (summary.unserved.length === 0) return null;
  return (
    <Card title="Not served" id="jobs-unserved">
      <ul className="lines">
        {summary.unserved.map((each) => (
          <li key={each.cause} data-cause={each.cause}>
            <strong className="line-count figures tone-warning">{each.count}</strong>
            <span className="line-words">
              <strong>
                <Prose>{capital(each.text)}</Prose>
              </strong>
              <span className="faint">
                <Prose>{capital(each.advice)}</Prose>
              </span>
              <span className="line-links faint">
                oldest <Link href={to("jobs", each.example)}>{each.example}</Link>
              </span>
            </span>
            <span className="line-side">
              <Elapsed since={each.oldest_since} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Two ledgers of the same work side by side: where they differ for long, one of them is wrong. */
function Sources({ summary }: { summary: JobSummary }) {
  if (summary.sources.length === 0) return null;
  return (
    <Card title="Counted by the source itself" id="jobs-sources">
      <div className="commands-scroll" role="group" aria-label="Counts of each queue" tabIndex={0}>
        <table className="plain-table">
          <thead>
            <tr>
              <th>Queue</th>
              <th>Not yet assigned</th>
              <th>Assigned</th>
              <th>Running</th>
              <th>Runners busy</th>
              <th>Runners idle</th>
              <th>Wanted</th>
              <th className="wide">Template</th>
              <th className="wide">Updated</th>
            </tr>
          </thead>
          <tbody>
            {summary.sources.map((each) => (
              <tr key={`${each.source} ${each.queue}`}>
                <td className="cell-name">
                  <Name>{each.queue || BY_LABELS}</Name>{" "}
                  {each.problem && (
                    <Badge tone="warning" title={each.problem}>
                      {each.problem}
                    </Badge>
                  )}
                </td>
                <td className="figures">{each.available}</td>
                <td className="figures">{each.assigned}</td>
                <td className="figures">{each.running}</td>
                <td className="figures">{each.busy}</td>
                <td className="figures">{each.idle}</td>
                <td className="figures">
                  {each.desired}
                  {typeof each.most === "number" && <span className="faint"> of {each.most}</span>}
                </td>
                <td className="wide cell-name">
                  {each.template ? <TemplateLink name={each.template} /> : <span className="faint">–</span>}
                </td>
                <td className="wide">
                  <Ago at={each.at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

/** A queued job that nothing is done for is trouble; one whose machine is on its way is not. */
export function toneOfJob(job: Pick<Job, "state" | "result" | "unserved" | "operation_id">): Tone {
  if (job.state === "running") return "active";
  if (job.state === "queued") return job.unserved ? "warning" : "pending";
  return job.result === "succeeded" ? "success" : job.result === "failed" ? "danger" : "warning";
}

const wordOf = (job: Job): string => plain(job.state === "completed" ? (job.result ?? job.state) : job.state);

function Table({ jobs, more }: { jobs: readonly Job[]; more: boolean }) {
  const unserved = jobs.some((job) => job.why);
  return (
    <div className="rows card">
      <table className="plain-table">
        <thead>
          <tr>
            <th>State</th>
            <th>Job</th>
            <th className="wide">Repository</th>
            {unserved && <th className="wide">Why it waits</th>}
            <th className="wide">Waited</th>
            <th className="wide">Node</th>
            <th>Queued</th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.id} data-testid="job-row" data-state={job.state}>
              <td>
                <Badge tone={toneOfJob(job)}>{wordOf(job)}</Badge>
              </td>
              <td className="cell-name">
                <Link href={to("jobs", job.id)} title={job.name}>
                  <bdi>{job.name || job.id}</bdi>
                </Link>
              </td>
              <td className="wide cell-name">
                <bdi title={job.repository}>{job.repository}</bdi>
              </td>
              {unserved && (
                <td className="wide cell-words">
                  <bdi title={job.why}>{job.why}</bdi>
                </td>
              )}
              <td className="wide figures">
                {typeof job.waited_seconds === "number" ? took(job.waited_seconds) : <span className="faint">–</span>}
                {job.warm && <span className="faint"> warm</span>}
              </td>
              <td className="wide">{job.node_id && <NodeLink id={job.node_id} />}</td>
              <td>
                <Ago at={job.queued_at ?? job.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {more && (
        <p className="more">
          These are the newest {counted(jobs.length, "job")}. All of them: <code>muster jobs</code>
        </p>
      )}
    </div>
  );
}

export function JobPage({ id }: { id: string }) {
  const read = useResource<Job>(`/jobs/${encodeURIComponent(id)}`, { on: (event) => event.entity_id === id });
  const job = read.data;
  if (!job) {
    if (read.error instanceof Refused && read.error.notFound) return <NotFound what="job" id={id} />;
    return read.error ? <Trouble error={read.error} retry={read.refresh} /> : <Loading rows={6} />;
  }
  return (
    <div className="operation">
      <Crumbs href="/jobs" list="Jobs" here={job.name || job.id} />
      <header className="page-head">
        <h1>
          <Name>{job.name || job.id}</Name> <Badge tone={toneOfJob(job)}>{wordOf(job)}</Badge>
        </h1>
      </header>
      {job.why && (
        <section className="failed card tone-warning" aria-label="Why it is not served" data-testid="job-why">
          <p className="failed-message">
            <Prose>{capital(job.why)}</Prose>
          </p>
          {job.advice && (
            <p>
              <strong>What to do:</strong> <Prose>{job.advice}</Prose>
            </p>
          )}
        </section>
      )}
      <Card title="About">
        <Facts>
          <Fact name="Job">
            <Name mono>{job.id}</Name>
          </Fact>
          <Fact name="Repository">{job.repository && <Name>{job.repository}</Name>}</Fact>
          <Fact name="Workflow">{job.workflow && <Name>{job.workflow}</Name>}</Fact>
          <Fact name="Run">{job.run && <Name>{job.run}</Name>}</Fact>
          <Fact name="Attempt">{job.attempt}</Fact>
          <Fact name="Labels">{job.labels?.join(", ")}</Fact>
          <Fact name="Queue">{job.queue}</Fact>
          <Fact name="Template">{job.template && <TemplateLink name={job.template} />}</Fact>
          <Fact name="Operation">{job.operation_id && <OperationLink id={job.operation_id} full />}</Fact>
          <Fact name="Node">{job.node_id && <NodeLink id={job.node_id} full />}</Fact>
          <Fact name="Warm">
            {typeof job.warm === "boolean" && (job.warm ? "yes, from the pool" : "no, a new node")}
          </Fact>
          <Fact name="Queued">{job.queued_at && <Ago at={job.queued_at} />}</Fact>
          <Fact name="Started">{job.started_at && <Ago at={job.started_at} />}</Fact>
          <Fact name="Completed">{job.completed_at && <Ago at={job.completed_at} />}</Fact>
          <Fact name="Waited">{typeof job.waited_seconds === "number" && took(job.waited_seconds)}</Fact>
          <Fact name="Interrupted">{job.interrupted && "its machine was lost while it ran"}</Fact>
        </Facts>
      </Card>
    </div>
  );
}
