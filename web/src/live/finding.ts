/** Finding anything by its id, run or name: among what was read lately, and always by a search of its own. */

import { type Cluster, type Job, JOB_STATES, type Node, type Operation, type Template } from "../api/types";
import { to } from "../routing/router";
import { capital, plain } from "../words/names";

export interface Found {
  key: string;
  kind: string;
  title: string;
  /** What else tells it apart. */
  note: string;
  href: string;
}

export interface Known {
  nodes: readonly Node[];
  operations: readonly Operation[];
  templates: readonly Template[];
  clusters: readonly Cluster[];
  jobs: readonly Job[];
}

export const NOTHING: Known = { nodes: [], operations: [], templates: [], clusters: [], jobs: [] };
const SHOWN_MOST = 12;

const PAGES: readonly Found[] = [
  ["Overview", "/"],
  ["Operations", "/operations"],
  ["Jobs", "/jobs"],
  ["Nodes", "/nodes"],
  ["Templates", "/templates"],
  ["Clusters", "/clusters"],
  ["Events", "/events"],
  ["Wallboard", "/wallboard"],
  ["API reference", "/api"],
].map(([title = "", href = ""]) => ({ key: `page ${href}`, kind: "page", title, note: "", href }));

const PROVISION: Found = {
  key: "act provision",
  kind: "action",
  title: "Provision nodes",
  note: "",
  href: "/?provision=1",
};

export function everything(known: Known, operator: boolean): Found[] {
  return [
    ...(operator ? [PROVISION] : []),
    ...PAGES,
    ...known.templates.map((each) => found("template", each.name, each.provider, to("templates", each.name))),
    ...known.clusters.map((each) => found("cluster", each.name, each.state, to("clusters", each.name))),
    ...known.operations.map(ofOperation),
    ...known.jobs.map(ofJob),
    ...known.nodes.map((each) =>
      found(
        "node",
        each.id,
        [each.state, each.template, each.run, each.machine_id].filter(Boolean).join(" · "),
        to("nodes", each.id),
      ),
    ),
  ];
}

export function ofOperation(operation: Operation): Found {
  const name = operation.run ?? operation.detail?.cluster ?? operation.template ?? "";
  const title = `${capital(plain(operation.kind))} ${name}`.trim();
  const note = `${operation.status} · ${operation.operation_id}`;
  const href = to("operations", operation.operation_id);
  return { key: `operation ${operation.operation_id}`, kind: "operation", title, note, href };
}

function ofJob(job: Job): Found {
  const note = [job.state, job.repository, job.run, job.id].filter(Boolean).join(" · ");
  return { key: `job ${job.id}`, kind: "job", title: job.name || job.id, note, href: to("jobs", job.id) };
}

const found = (kind: string, title: string, note: string, href: string): Found => ({
  key: `${kind} ${title}`,
  kind,
  title,
  note,
  href,
});

/** All words must be there. What begins with the words comes before what holds them; ids fit by their end too. */
export function ranked(items: readonly Found[], text: string): Found[] {
  const given = text.trim().toLowerCase();
  const words = given.split(/\s+/).filter(Boolean);
  if (words.length === 0) return items.filter((each) => each.kind === "page" || each.kind === "action");
  const scored = items.flatMap((item) => {
    const title = item.title.toLowerCase();
    const whole = `${item.kind} ${title} ${item.note.toLowerCase()}`;
    if (!words.every((word) => whole.includes(word))) return [];
    const first = words[0] ?? "";
    const score =
      title === given || item.key.toLowerCase() === `${item.kind} ${given}`
        ? 0
        : title.startsWith(first) || title.endsWith(first)
          ? 1
          : title.includes(first)
            ? 2
            : 3;
    return [{ item, score }];
  });
  scored.sort((a, b) => a.score - b.score);
  return scored.slice(0, SHOWN_MOST).map((each) => each.item);
}

const BY_ID = [
  { kind: "node", ids: /^node-\S+$/ },
  { kind: "operation", ids: /^op-\S+$/ },
  { kind: "job", ids: /^github-[\w.-]+$/ },
] as const;

/** Searches that look at everything, not only at what was read lately. */
export function searches(text: string): Found[] {
  const given = text.trim();
  if (given === "") return [];
  const query = encodeURIComponent(given);
  const state = JOB_STATES.find((each) => each === given.toLowerCase());
  return [
    ...BY_ID.filter(({ ids }) => ids.test(given)).map(({ kind }) =>
      found(kind, given, "by its id", to(`${kind}s`, given)),
    ),
    ...(state ? [found("search", `Jobs with state “${state}”`, "", `/jobs?state=${state}`)] : []),
    found("search", `Operations of run “${given}”`, "", `/operations?run=${query}`),
    found("search", `Nodes with “${given}”`, "", `/nodes?q=${query}`),
    found("search", `Events with “${given}”`, "", `/events?q=${query}`),
  ];
}
