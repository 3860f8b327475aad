/** The OpenAPI document as far as the reference shows it: routes, types in words, examples, a curl line. */

export interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  items?: Schema;
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  required?: string[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  examples?: unknown[];
  minimum?: number;
  maximum?: number;
}

export interface Media {
  schema?: Schema;
  example?: unknown;
}

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
}

interface Body {
  description?: string;
  content?: Record<string, Media>;
}

interface Described {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: Body;
  responses?: Record<string, Body>;
  security?: Record<string, unknown>[];
}

export interface Document {
  info: { title: string; version: string };
  paths: Record<string, Record<string, Described>>;
  components?: { schemas?: Record<string, Schema> };
}

/** A body: its media type, and what the document says of it. */
export type Content = Media & { mediaType: string };

export interface Route {
  id: string;
  tag: string;
  method: string;
  path: string;
  access: string;
  summary: string;
  /** What the summary leaves out; empty: nothing. */
  words: string;
  parameters: Parameter[];
  body: Content | null;
  status: string;
  answer: Content | null;
}

const ACCESS = /\s*Access: ([\w-]+)\.\s*$/;
const DEEPEST = 8; // of an example that is made up

export function routesOf(document: Document): Route[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => route(path, method, described)),
  );
}

function route(path: string, method: string, described: Described): Route {
  const text = described.description ?? "";
  const summary = described.summary ?? "";
  const responses = Object.entries(described.responses ?? {});
  const [status, answer] = responses.find(([code]) => code.startsWith("2")) ?? ["", undefined];
  return {
    id: described.operationId,
    tag: described.tags?.[0] ?? "other",
    method: method.toUpperCase(),
    path,
    access: ACCESS.exec(text)?.[1] ?? "public",
    summary,
    words: text
      .replace(ACCESS, "")
      .replace(summary, "")
      .replace(/^\.?\s*/, ""),
    parameters: described.parameters ?? [],
    body: contentOf(described.requestBody),
    status,
    answer: contentOf(answer),
  };
}

function contentOf(body: Body | undefined): Content | null {
  const [first] = Object.entries(body?.content ?? {});
  return first ? { mediaType: first[0], ...first[1] } : null;
}

/** The routes that fit all of these words; where none does, those whose bodies have fields that do. */
export function found(routes: readonly Route[], document: Document, asked: string): Route[] {
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (texts: string[]) => {
    const text = texts.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const own = (route: Route) => {
    const { method, path, id, tag, access, summary, words: told, parameters } = route;
    return [method, path, id, tag, access, summary, told, ...parameters.map((parameter) => parameter.name)];
  };
  const fields = (route: Route) => [route.body, route.answer].flatMap((content) => fieldsOf(document, content?.schema));
  const fitting = routes.filter((route) => fits(own(route)));
  return fitting.length > 0 ? fitting : routes.filter((route) => fits([...own(route), ...fields(route)]));
}

function fieldsOf(document: Document, schema: Schema | undefined): string[] {
  const known = schema && resolved(document, schema);
  const items = known?.properties?.["items"]?.items;
  return [...Object.keys(known?.properties ?? {}), ...(items ? fieldsOf(document, items) : [])];
}

/** The schema itself where this one only names it. */
export function resolved(document: Document, schema: Schema): Schema {
  const name = nameOf(schema);
  return (name !== null && document.components?.schemas?.[name]) || schema;
}

export function nameOf(schema: Schema): string | null {
  return schema.$ref?.split("/").at(-1) ?? null;
}

/** What it is apart from null, which `X | null` allows. */
function options(schema: Schema): Schema[] {
  return schema.anyOf ?? schema.oneOf ?? [schema];
}

/** The shape with fields inside of this schema: of itself, of its items, of one of its options. */
export function inner(document: Document, schema: Schema): Schema | null {
  for (const option of options(schema)) {
    const known = resolved(document, option);
    if (known.properties) return known;
    const within = known.items ?? (typeof known.additionalProperties === "object" ? known.additionalProperties : null);
    const deeper = within && inner(document, within);
    if (deeper) return deeper;
  }
  return null;
}

/** `integer, 1 to 500`, `list of NodeState`, `text or null`. */
export function typeOf(document: Document, schema: Schema): string {
  return options(schema)
    .map((option) => one(document, option))
    .join(" or ");
}

function one(document: Document, schema: Schema): string {
  const known = resolved(document, schema);
  const choices = known.enum ?? ("const" in known ? [known.const] : undefined);
  if (choices) return choices.map(String).join(" | ");
  const name = nameOf(schema);
  if (name !== null) return name;
  const types = [known.type ?? "any"].flat();
  return types.map((type) => plainType(document, known, type)).join(" or ") + range(known);
}

function plainType(document: Document, schema: Schema, type: string): string {
  if (type === "array") return schema.items ? `list of ${typeOf(document, schema.items)}` : "list";
  if (type === "object" && typeof schema.additionalProperties === "object") {
    return `map of ${typeOf(document, schema.additionalProperties)}`;
  }
  if (type === "string") return schema.format === "date-time" ? "time" : "text";
  return type;
}

function range({ minimum, maximum }: Schema): string {
  if (minimum !== undefined && maximum !== undefined) return `, ${minimum} to ${maximum}`;
  if (minimum !== undefined) return `, at least ${minimum}`;
  return maximum !== undefined ? `, at most ${maximum}` : "";
}

/** The document's own example; where it has none, one that is put together from those of the parts. */
export function exampleOf(document: Document, content: Content): string {
  if (typeof content.example === "string") return laidOut(content.example);
  const value = content.example ?? (content.schema && sample(document, content.schema, 0));
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}

function laidOut(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function sample(document: Document, schema: Schema, depth: number): unknown {
  const option = options(schema)[0] ?? schema;
  const known = resolved(document, option);
  if (known.examples?.length) return known.examples[0];
  if (known.default !== undefined) return known.default;
  if (known.enum) return known.enum[0];
  if (depth > DEEPEST) return null;
  const type = [known.type ?? "object"].flat()[0];
  if (type === "array") return known.items ? [sample(document, known.items, depth + 1)] : [];
  if (type === "object") {
    const fields = Object.entries(known.properties ?? {});
    return Object.fromEntries(fields.map(([name, each]) => [name, sample(document, each, depth + 1)]));
  }
  if (type === "string") return known.format === "date-time" ? "2026-05-04T09:30:00Z" : "…";
  return type === "boolean" ? false : type === "null" ? null : (known.minimum ?? 0);
}

/** For a shell. The token is left to its environment. */
export function curl(document: Document, route: Route, server: string): string {
  const path = route.path.replace(/\{(\w+)\}/g, (_, name: string) => name.toUpperCase());
  const lines = [`curl -sS${route.method === "GET" ? "" : ` -X ${route.method}`} "${server}${path}"`];
  if (route.access === "node") lines.push(`-H "Authorization: Bearer $NODE_TOKEN"`);
  else if (route.access !== "public") lines.push(`-H "Authorization: Bearer $MUSTER_TOKEN"`);
  if (route.answer?.mediaType === "text/event-stream") lines.push(`-N -H "Accept: text/event-stream"`);
  if (route.body) {
    lines.push(`-H "Content-Type: ${route.body.mediaType}"`);
    lines.push(
      route.body.mediaType === "application/json" ? `-d ${body(document, route.body)}` : "--data-binary @FILE",
    );
  }
  return lines.join(" \\\n  ");
}

function body(document: Document, content: Content): string {
  const text = JSON.stringify(JSON.parse(exampleOf(document, content)));
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
