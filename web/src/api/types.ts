/** The API's shapes under the page's names. They are generated from the server's own document (docs/dashboard.md). */

import type { components } from "../../generated/schema";

export {
  eventEntityValues as ENTITIES,
  healthValues as HEALTHS,
  jobStateValues as JOB_STATES,
  nodeStateValues as NODE_STATES,
  statusValues as STATUSES,
} from "../../generated/schema";

type Shapes = components["schemas"];

export type Tone = Shapes["Tone"];
export type Role = Shapes["Role"];
export type Status = Shapes["Status"];
export type NodeState = Shapes["NodeState"];
export type Health = Shapes["Health"];

export interface Page<T> {
  items: T[];
  next: string | null;
}

export type Who = Shapes["Identity"];
export type WaitingDevice = Shapes["WaitingDevice"];
export type Part = Shapes["Part"];
export type Diagnosis = Shapes["Diagnosis"];
export type Failure = Shapes["Failure"];
export type Motion = Shapes["Motion"];
export type Progress = Shapes["Progress"];
export type Operation = Shapes["Operation"];
export type Why = Shapes["Why"];
export type Node = Shapes["Node"];
export type Span = Shapes["Span"];
export type Distribution = Shapes["Distribution"];
export type Timeline = Shapes["Timeline"];
export type Bundle = Shapes["Bundle"];
export type Console = Shapes["Console"];
export type Pool = Shapes["Pool"];
export type Pools = Shapes["Pools"];
export type PoolHistory = Shapes["PoolHistory"];
export type TemplateHistory = Shapes["TemplateHistory"];
export type PoolPoint = Shapes["PoolPoint"];
export type Job = Shapes["Job"];
export type JobSummary = Shapes["JobSummary"];
export type JobsServed = Shapes["JobsServed"];
export type Template = Shapes["Template"];
export type BootKind = Shapes["BootKind"];
export type Boots = Shapes["Boots"];
export type FeedEvent = Shapes["Event"];
export type Command = Shapes["Command"];
export type Cluster = Shapes["Cluster"];
export type ClusterState = Shapes["ClusterState"];
export type ClusterSpec = Shapes["AksTable"];

/** Of a server that is older than the page, a block may be missing; the page leaves it out then. */
export type Overview = Partial<Shapes["Overview"]>;
export type Finding = Shapes["Finding"];
export type Acknowledged = Shapes["AcknowledgedFinding"];
export type FailureGroup = Shapes["FailureGroup"];
export type Failures = Shapes["Failed"];
export type Leftover = Shapes["Leftover"];
export type Change = Shapes["Change"];
export type Warmth = Shapes["Warm"];
export type Duty = Shapes["Duty"];
export type ProviderFigures = Shapes["Dependency"];
export type StoreFigures = Shapes["StoreCalls"];
export type Held = Shapes["Held"];
export type HeldNodes = Shapes["HeldNodes"];
export type HeldNode = Shapes["HeldNode"];
export type Backlog = Shapes["Backlog"];
export type Undelivered = Shapes["Undelivered"];
export type Run = Shapes["RunningRun"];
export type Runs = Shapes["Runs"];
export type Waiting = Shapes["Waiting"];
