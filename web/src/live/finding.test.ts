import { describe, expect, test } from "vitest";
import type { Job, Template } from "../api/types";
import { node, operation } from "../testing/examples";
import { everything, type Known, ranked, searches } from "./finding";

const known: Known = {
  nodes: [node({ id: "node-1hx2k9", run: "ci-42", machine_id: "i-0abc" }), node({ id: "node-77ci42", run: null })],
  operations: [operation({ run: "ci-42" })],
  templates: [{ name: "ci", provider: "process" } as Template],
  clusters: [],
  jobs: [
    { id: "github-71", state: "queued", name: "check", repository: "acme/app" } as Job,
    { id: "github-7", state: "running", name: "build", repository: "acme/app", run: "9001" } as Job,
  ],
};
const titles = (text: string, operator = true) => ranked(everything(known, operator), text).map((each) => each.title);

describe("anything is found", () => {
  test.each([
    ["a node by its machine", "i-0abc", "node-1hx2k9"],
    ["a node by the end of its id", "1hx2k9", "node-1hx2k9"],
    ["an operation by its run", "ci-42", "Provision ci-42"],
    ["an operation by its id", "e1", "Provision ci-42"],
    ["a template by its name, before what only holds the name", "ci", "ci"],
    ["a job by its name", "build", "build"],
    ["a job by its repository and run", "acme/app 9001", "build"],
    ["a page", "event", "Events"],
    ["by several words in any order", "ci-42 provision", "Provision ci-42"],
  ])("%s", (_, text, title) => {
    expect(titles(text)[0]).toBe(title);
  });

  test("the exact id of a job leads to its page, before what only begins so", () => {
    expect(ranked(everything(known, true), " GitHub-7 ")[0]?.href).toBe("/jobs/github-7");
    expect(searches("github-5")[0]?.href).toBe("/jobs/github-5");
  });

  test("a state of jobs leads to the jobs with it", () => {
    expect(searches("Queued")[0]).toMatchObject({ title: "Jobs with state “queued”", href: "/jobs?state=queued" });
  });

  test("nothing typed lists pages, and what one may do", () => {
    expect(titles("")[0]).toBe("Provision nodes");
    expect(titles("", false)).not.toContain("Provision nodes");
    expect(titles("")).toContain("Wallboard");
  });

  test("what was not read is searched for, and an id leads straight there", () => {
    expect(searches("op-9")[0]?.href).toBe("/operations/op-9");
    expect(searches("a&b").map((each) => each.href)).toEqual([
      "/operations?run=a%26b",
      "/nodes?q=a%26b",
      "/events?q=a%26b",
    ]);
    expect(searches("  ")).toEqual([]);
  });
});
