import { render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Job, JobSummary } from "../api/types";
import { forgetAll } from "../live/resource";
import { signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { Jobs, toneOfJob } from "./jobs";

const served = { started: 140, waited: { count: 140, p50: 3.1, p95: 41 }, warm_rate: 0.93 };
const summary: JobSummary = {
  queued: 3,
  running: 12,
  unserved: [
    {
      cause: "cap",
      text: "the cap is reached",
      advice: "raise max_nodes",
      count: 3,
      oldest_since: "",
      example: "github-7",
    },
  ],
  more: false,
  hour: served,
  day: { ...served, started: 900 },
  served_more: false,
  sources: [
    {
      source: "github",
      queue: "linux",
      at: "",
      available: 4,
      assigned: 15,
      running: 12,
      busy: 12,
      idle: 2,
      desired: 15,
    } as JobSummary["sources"][0],
  ],
};
const job = (changes: Partial<Job>) => ({ id: "github-7", state: "queued", name: "build", why: "", ...changes }) as Job;

let site: Site;

beforeEach(() => {
  signedIn("viewer");
  site = new Site();
  site.answers("/jobs", () => Response.json({ items: [job({ why: "the cap is reached" })], next: null }));
  site.answers("/jobs/summary", () => Response.json(summary));
});
afterEach(() => {
  forgetAll();
  vi.unstubAllGlobals();
});

test("shows what waits, runs and was served, beside the source's own counts", async () => {
  render(<Jobs />);
  const figures = (await screen.findByTestId("jobs-served")).textContent;
  for (const words of ["Queued3", "Running12", "140", "3.1 s", "p95 41.0 s", "93 %"]) expect(figures).toContain(words);
  expect(screen.getByTestId("jobs-sources").textContent).toContain("linux 4151212215");
  expect(screen.getByTestId("jobs-unserved").textContent).toContain("The cap is reached");
  expect((await screen.findByTestId("job-row")).textContent).toContain("the cap is reached");
});

test("jobs that come by webhooks have a queue with that name", async () => {
  const [counts] = summary.sources;
  site.answers("/jobs/summary", () => Response.json({ ...summary, sources: [{ ...counts, queue: "" }] }));
  render(<Jobs />);
  expect((await screen.findByTestId("jobs-sources")).textContent).toContain("webhooks 4151212215–");
});

test.each([
  [job({ state: "queued" }), "pending"],
  [job({ state: "queued", unserved: "cap" }), "warning"],
  [job({ state: "running" }), "active"],
  [job({ state: "completed", result: "succeeded" }), "success"],
  [job({ state: "completed", result: "failed" }), "danger"],
  [job({ state: "completed", result: "cancelled" }), "warning"],
])("%#: a job's tone says whether somebody must act", (given, tone) => {
  expect(toneOfJob(given)).toBe(tone);
});

test("the list says that it leaves out what is over, until one asks for it", async () => {
  render(<Jobs />);
  expect(screen.getByLabelText("State").querySelector("option")?.textContent).toBe("queued or running");
});

test("without a source of jobs there are no zeros to look at, and without a wait no reason for one", async () => {
  const none = { ...served, started: 0, waited: null, warm_rate: null };
  const quiet = { ...summary, queued: 0, running: 0, unserved: [], sources: [], hour: none, day: none };
  site.answers("/jobs", () => Response.json({ items: [], next: null }));
  site.answers("/jobs/summary", () => Response.json(quiet));
  const { unmount } = render(<Jobs />);
  expect(await screen.findByText("No job is queued or running")).toBeTruthy();
  expect(screen.queryByTestId("jobs-served")).toBeNull();
  unmount();
  forgetAll();
  site.answers("/jobs", () => Response.json({ items: [job({ state: "running" })], next: null }));
  site.answers("/jobs/summary", () => Response.json(quiet));
  render(<Jobs />);
  await screen.findByTestId("job-row");
  expect(screen.queryByText("Why it waits")).toBeNull();
});
