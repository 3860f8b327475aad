/**
 * Filters under a name, kept by this browser. A saved one is nothing but an address: `/nodes?state=failed&view=broken`.
 * A person who gets the address sees the same, and can keep it under its name.
 */

const KEY = "muster.filters";
const MOST = 50;
export const VIEW = "view";

export interface Saved {
  name: string;
  /** Path and query, with the name in it. */
  href: string;
}

export function saved(path: string): Saved[] {
  return all().filter((each) => new URL(each.href, location.origin).pathname === path);
}

/** The address of the filters under this name. */
export function named(path: string, query: URLSearchParams, name: string): string {
  const kept = new URLSearchParams(query);
  kept.set(VIEW, name);
  return `${path}?${kept}`;
}

/** One of the same name is replaced. */
export function save(path: string, query: URLSearchParams, name: string): Saved {
  const made = { name, href: named(path, query, name) };
  const others = all().filter((each) => each.name !== name || new URL(each.href, location.origin).pathname !== path);
  write([...others, made].slice(-MOST));
  return made;
}

export function forget(gone: Saved): void {
  write(all().filter((each) => each.href !== gone.href));
}

/** Whether there is anything to save: sorting and the name alone are no filter. */
export function filtered(query: URLSearchParams): boolean {
  return [...query.keys()].some((name) => name !== VIEW);
}

function all(): Saved[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter(isSaved) : [];
  } catch {
    return []; // storage is blocked, or another program wrote there
  }
}

function isSaved(value: unknown): value is Saved {
  const { name, href } = (value ?? {}) as Partial<Saved>;
  // Only an address inside of this page: never another host, never a script.
  return typeof name === "string" && typeof href === "string" && /^\/(?!\/)/.test(href);
}

function write(filters: readonly Saved[]): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(filters));
  } catch {
    // It stays in the address.
  }
}
