/**
 * Who is signed in.
 *
 * The token lives in sessionStorage: it survives a reload, belongs to this tab alone and is gone with it. It is never
 * in an address, which ends up in histories, logs and shared links.
 *
 * Who signed in by the identity provider has no token here, but a cookie that no script can read. The server takes it
 * from requests of this page alone.
 */

import type { Role, Who } from "./types";

const KEY = "muster.token";
/** In place of a token: the browser shows the cookie of its session by itself. */
export const COOKIE = "";
const RANK: Record<Role, number> = { enrol: 0, viewer: 1, operator: 2, admin: 3 };

export interface Session {
  token: string | null;
  who: Who | null;
  /** Why one has to sign in (again). */
  notice: string;
}

type Listener = () => void;

class SessionStore {
  private state: Session = { token: stored(), who: null, notice: "" };
  private readonly listeners = new Set<Listener>();

  readonly get = (): Session => this.state;

  readonly subscribe = (listener: Listener): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  began(token: string, who: Who): void {
    keep(token);
    this.set({ token, who, notice: "" });
  }

  /** Takes up what the browser has; whose it is, the server says next. */
  resumes(token: string): void {
    this.set({ token, who: null, notice: "" });
  }

  ended(notice: string): void {
    keep(null);
    this.set({ token: null, who: null, notice });
  }

  private set(state: Session): void {
    this.state = state;
    for (const listener of [...this.listeners]) listener();
  }
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null; // storage is blocked: one signs in again after each reload
  }
}

function keep(token: string | null): void {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // As above.
  }
}

export const session = new SessionStore();

export function may(who: Who | null, needed: Role): boolean {
  return who !== null && (RANK[who.role] ?? 0) >= RANK[needed];
}
