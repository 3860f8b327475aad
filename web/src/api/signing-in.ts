/** From a token to a session: the server says whose it is and what its holder may do. */

import { read, Refused, send } from "./client";
import { clock } from "./clock";
import { COOKIE, session } from "./session";
import type { FeedEvent, Who } from "./types";

export async function signIn(token: string): Promise<void> {
  // Other characters can't be sent in a header; no token has them.
  if (!/^[\x21-\x7e]{1,512}$/.test(token)) {
    throw new Refused(401, "unauthenticated", "a token has no spaces and only plain characters; copy it whole");
  }
  session.began(token, await whoami(token));
}

/** Takes up what this tab remembers. A token that is no longer good ends the session, with a word why. */
export async function resume(): Promise<void> {
  const { token } = session.get();
  if (token === null) return;
  try {
    session.began(token, await whoami(token));
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 401) throw error;
    session.ended(`You were signed out: ${error.message}`);
  }
}

/** Signs out: a session ends at the server, a token only leaves this tab. */
export async function signOut(): Promise<void> {
  let notice = "";
  if (session.get().token === COOKIE) {
    try {
      await send("/sign-out", { method: "POST", token: COOKIE });
    } catch (error) {
      if (!(error instanceof Refused && error.status === 401)) notice = `You are still signed in: ${String(error)}`;
    }
  }
  session.ended(notice);
}

const LATEST = 2 ** 31 - 1; // what a timer can wait for, in ms

/** Looks again whether the token is still good, when it ends by itself and when an event speaks of it. */
export function watchToken(
  who: Who,
  subscribe: (batch: (events: readonly FeedEvent[]) => void) => () => void,
): () => void {
  const again = () => void resume().catch(() => undefined); // out of reach: the next request will tell
  const end = subscribe((events) => {
    if (events.some((event) => event.entity_id === who.token_id)) again();
  });
  const left = who.expires_at ? Date.parse(who.expires_at) - clock.now() : Infinity;
  const timer = left < LATEST ? setTimeout(again, Math.max(0, left) + 1000) : undefined;
  return () => {
    end();
    clearTimeout(timer);
  };
}

async function whoami(token: string): Promise<Who> {
  try {
    return await read<Who>(await send("/whoami", { token }));
  } catch (error) {
    // A token that may not look (one that only enrols apps) is refused in words that say so.
    if (error instanceof Refused && error.status === 403)
      throw new Refused(403, error.code, `${error.message}; use a viewer's, an operator's or an admin's token`);
    throw error;
  }
}
