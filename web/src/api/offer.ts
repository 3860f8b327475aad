/** How one can sign in here beside a token, and whether this browser is signed in already. */

import { useEffect, useState } from "react";
import { read, ROOT, send } from "./client";
import { COOKIE, session } from "./session";

export interface Offer {
  /** Of the identity provider; null: only tokens. */
  name: string | null;
  signed_in: boolean;
  /** Why the last attempt of this browser failed. */
  notice: string;
}

const TOKENS: Offer = { name: null, signed_in: false, notice: "" };

/** Asks once per showing. A session of this browser is taken up; null: the server has not answered yet. */
export function useOffer(): Offer | null {
  const [offer, setOffer] = useState<Offer | null>(null);
  useEffect(() => {
    let over = false;
    send("/sign-in", { token: COOKIE })
      .then((response) => read<Offer>(response))
      .catch(() => TOKENS) // the token's form says what is wrong when it is used
      .then((found) => {
        if (over) return;
        if (found.signed_in) session.resumes(COOKIE);
        else setOffer(found);
      });
    return () => {
      over = true;
    };
  }, []);
  return offer;
}

/** Where the identity provider is asked. One comes back to the page that one is on. */
export function providerAddress(): string {
  return `${ROOT}/sign-in/start?${new URLSearchParams({ to: location.pathname + location.search }).toString()}`;
}
