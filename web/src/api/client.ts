/** The one place that speaks HTTP: the token in a header (or the cookie), refusals as errors that say what to do. */

import { clock } from "./clock";
import { session } from "./session";

export const ROOT = "/api/v1";
const PATIENCE = 30_000; // no answer of the API takes nearly as long

/** The server said no, and why. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string | undefined;

  constructor(status: number, code: string, detail: string, field?: string) {
    super(detail);
    this.status = status;
    this.code = code;
    this.field = field;
  }

  get notFound(): boolean {
    return this.status === 404;
  }
}

/** No answer came: the server is away, or the network is. */
export class Unreachable extends Error {
  /** The network refused; a server that is only slow keeps one waiting first. */
  readonly atOnce: boolean;

  constructor(atOnce: boolean) {
    super("cannot reach the server: it may be restarting, or the network is down");
    this.atOnce = atOnce;
  }
}

/** Whether the same request may well succeed a little later. */
export function passing(error: unknown): boolean {
  return error instanceof Unreachable || (error instanceof Refused && (error.status >= 500 || error.status === 429));
}

export type Query = Record<string, string | number | readonly string[] | null | undefined>;

interface Asked {
  method?: "GET" | "POST";
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** A stream, which ends when it is told to. */
  endless?: boolean;
  /** Instead of the session's: for signing in. */
  token?: string;
}

export async function send(path: string, asked: Asked = {}): Promise<Response> {
  const token = asked.token ?? session.get().token;
  const headers: Record<string, string> = { Accept: "application/json", ...asked.headers };
  if (token) headers["Authorization"] = `Bearer ${token}`;
  const init: RequestInit = { method: asked.method ?? "GET", headers, cache: "no-store", redirect: "error" };
  if (asked.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(asked.body);
  }
  const ends = [...(asked.signal ? [asked.signal] : []), ...(asked.endless ? [] : [AbortSignal.timeout(PATIENCE)])];
  init.signal = AbortSignal.any(ends);
  const sent = Date.now();
  const response = await answered(ROOT + path + written(asked.query), init);
  clock.heard(response.headers.get("Date"), sent);
  if (response.ok) return response;
  const refusal = await refused(response);
  if (refusal.status === 401 && asked.token === undefined && token === session.get().token) {
    session.ended(`You were signed out: ${refusal.message}`);
  }
  throw refusal;
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  const response = await send(path, { ...(query && { query }), ...(signal && { signal }) });
  return await read<T>(response);
}

/** A key makes a repeat of the same request the same request: a double click makes one thing. */
export async function post<T>(path: string, body?: unknown, key?: string): Promise<T> {
  const headers = key === undefined ? {} : { "Idempotency-Key": key };
  return await read<T>(await send(path, { method: "POST", body, headers }));
}

/** Posts with a key that stays the same until an answer came: a repeat into the dark can't make a second operation. */
export function poster<T>(path: string, body?: unknown): () => Promise<T> {
  let key = newKey();
  return async () => {
    try {
      const answer = await post<T>(path, body, key);
      key = newKey();
      return answer;
    } catch (error) {
      if (!passing(error)) key = newKey();
      throw error;
    }
  };
}

export function newKey(): string {
  // randomUUID exists on https and localhost only; this also works on a plain address inside a network.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

async function answered(address: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(address, init);
  } catch (error) {
    throw cutOff(error);
  }
}

export async function read<T>(response: Response): Promise<T> {
  try {
    return (await response.json()) as T;
  } catch (error) {
    throw error instanceof SyntaxError ? error : cutOff(error);
  }
}

/** What was called off stays that; a broken connection, and an answer that never comes, are the same to the reader. */
function cutOff(error: unknown): unknown {
  const { name = "" } = error instanceof DOMException ? error : {};
  return name === "AbortError" ? error : new Unreachable(name !== "TimeoutError");
}

async function refused(response: Response): Promise<Refused> {
  try {
    const problem = (await response.json()) as { code?: string; detail?: string; field?: string };
    const detail = problem.detail ?? `the server answered ${response.status}`;
    return new Refused(response.status, problem.code ?? "", detail, problem.field);
  } catch {
    return new Refused(response.status, "", `the server answered ${response.status} without saying why`);
  }
}

function written(query: Query | undefined): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    for (const each of Array.isArray(value) ? (value as string[]) : [value]) params.append(name, String(each));
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}
