import { describe, expect, test } from "vitest";
import json from "../../generated/openapi.json";
import { type Content, curl, type Document, exampleOf, found, inner, type Route, routesOf, typeOf } from "./document";

const REAL = json as unknown as Document;
const ROUTES = routesOf(REAL);
const by = (id: string) => ROUTES.find((route) => route.id === id) as Route;
const SMALL: Document = {
  info: { title: "Small", version: "1" },
  paths: {},
  components: {
    schemas: {
      Leaf: { type: "object", required: ["word"], properties: { word: { enum: ["on", "off"] } } },
      Tree: { type: "object", properties: { leaf: { $ref: "#/components/schemas/Leaf" } }, examples: [{ leaf: null }] },
      Loop: { type: "object", properties: { again: { $ref: "#/components/schemas/Loop" } } },
    },
  },
};
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

describe("the server's own document", () => {
  test("tells of each route its group, who may use it and what it does", () => {
    expect(ROUTES.length).toBeGreaterThan(60);
    for (const route of ROUTES) {
      expect(route.tag).not.toBe("other");
      expect(["public", "node", "enrol", "viewer", "operator", "admin"]).toContain(route.access);
      expect(route.summary).not.toBe("");
      expect(route.words).not.toContain("Access:");
    }
    expect(new Set(ROUTES.map((route) => route.id)).size).toBe(ROUTES.length);
  });

  test("has an example of each body, and of each answer that has one", () => {
    for (const { body, answer } of ROUTES) {
      for (const content of [body, answer].filter((each): each is Content => each !== null)) {
        expect(exampleOf(REAL, content)).not.toBe("");
      }
    }
  });

  test("tells times from other text", () => {
    const node = inner(REAL, by("nodes_show").answer?.schema ?? {})?.properties ?? {};
    expect(typeOf(REAL, node["created_at"] ?? {})).toBe("time");
    expect(typeOf(REAL, node["booted_at"] ?? {})).toBe("time or null");
    expect(typeOf(REAL, node["template"] ?? {})).toBe("text");
  });

  test.each([
    ["nodes_listed", "viewer"],
    ["provisions_provision", "operator"],
    ["tokens_create", "admin"],
    ["agent_beat", "node"],
    ["health_healthz", "public"],
  ])("%s is for: %s", (id, access) => expect(by(id).access).toBe(access));
});

describe("a curl line", () => {
  test("leaves the token to the environment and carries the example", () => {
    const line = curl(REAL, by("provisions_provision"), "SERVER");
    expect(line).toContain(`curl -sS -X POST "SERVER/api/v1/provisions" \\\n`);
    expect(line).toContain(`-H "Authorization: Bearer $MUSTER_TOKEN"`);
    expect(line).toMatch(/-d '\{.*"template":"ci".*\}'$/);
  });

  test("names what the caller fills in, a node's token, a stream, a file", () => {
    expect(curl(REAL, by("nodes_show"), "")).toContain("/api/v1/nodes/NODE_ID");
    expect(curl(REAL, by("agent_beat"), "")).toContain("$NODE_TOKEN");
    expect(curl(REAL, by("operations_events"), "")).toContain(`-N -H "Accept: text/event-stream"`);
    expect(curl(REAL, by("blobs_upload"), "")).toContain("--data-binary @FILE");
    expect(curl(REAL, by("health_healthz"), "")).toBe(`curl -sS "/healthz"`);
  });

  test("keeps a quotation mark inside of its text", () => {
    const route = { ...by("provisions_provision"), body: { mediaType: "application/json", example: { a: "it's" } } };
    expect(curl(REAL, route, "")).toContain(`-d '{"a":"it'\\''s"}'`);
  });
});

describe("a search", () => {
  test.each([
    ["drain", ["nodes_drain"]],
    ["POST /cancel", ["operations_cancel", "commands_cancel"]],
    ["exit_status", ["commands_execute", "commands_listed", "commands_show", "commands_cancel"]],
    ["no such word", []],
  ])("for %s finds %j", (asked, ids) => {
    expect(found(ROUTES, REAL, asked).map((route) => route.id)).toEqual(ids);
  });
});

describe("a type in words", () => {
  test.each([
    [{ type: "integer", minimum: 1, maximum: 500 }, "integer, 1 to 500"],
    [{ anyOf: [{ type: "string" }, { type: "null" }] }, "text or null"],
    [{ type: "array", items: ref("Leaf") }, "list of Leaf"],
    [{ type: "string", format: "date-time" }, "time"],
    [{ type: "object", additionalProperties: { type: "string" } }, "map of text"],
    [{ enum: ["on", "off"] }, "on | off"],
  ])("%j is %s", (schema, words) => expect(typeOf(SMALL, schema)).toBe(words));

  test("its fields are found through lists, maps and null", () => {
    const leaf = SMALL.components?.schemas?.["Leaf"];
    expect(inner(SMALL, { anyOf: [{ type: "array", items: ref("Leaf") }, { type: "null" }] })).toBe(leaf);
    expect(inner(SMALL, { type: "object", additionalProperties: ref("Leaf") })).toBe(leaf);
    expect(inner(SMALL, { type: "string" })).toBeNull();
  });
});

describe("an example", () => {
  const made = (schema: object) => JSON.parse(exampleOf(SMALL, { mediaType: "application/json", schema })) as unknown;

  test("is the document's own, else put together from those of its parts", () => {
    expect(made(ref("Tree"))).toEqual({ leaf: null });
    expect(made({ type: "object", properties: { items: { type: "array", items: ref("Leaf") } } })).toEqual({
      items: [{ word: "on" }],
    });
  });

  test("of a shape that holds itself ends", () => expect(made(ref("Loop"))).toHaveProperty("again.again.again"));
});
