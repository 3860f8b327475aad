/** Signing in with a token, which goes into a header and this tab's memory; or by the identity provider. */

import { type FormEvent, useState } from "react";
import { Refused } from "../api/client";
import type { Offer } from "../api/offer";
import { session } from "../api/session";
import { signIn } from "../api/signing-in";
import { Field } from "../parts/field";
import { Logo } from "../parts/logo";
import { ProviderSignIn } from "../parts/provider-sign-in";
import { Link } from "../routing/router";

export function SignIn({ offer }: { offer: Offer }) {
  const notice = offer.notice || session.get().notice;
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState("");
  const [why, setWhy] = useState("");
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setWrong("");
    setWhy("");
    try {
      await signIn(token.trim());
    } catch (error) {
      const refused = error instanceof Refused && error.status === 401;
      // What the server says of a header helps who writes a program, not who pastes a token.
      setWrong(refused ? "This token is not valid here. Copy it again, or ask an admin for a new one." : "");
      setWhy(refused ? "" : (error as Error).message);
      setBusy(false);
    }
  };
  return (
    <main className="sign-in" data-testid="sign-in">
      <form className="card sign-in-card" onSubmit={(event) => void submit(event)}>
        <Logo />
        <h1>Sign in</h1>
        {notice && !wrong && !why && (
          <p className="sign-in-notice tone-warning" role="alert">
            {notice}
          </p>
        )}
        {offer.name && <ProviderSignIn name={offer.name} />}
        <input type="text" name="username" autoComplete="username" value="muster" readOnly hidden />
        <Field label="Token">
          {(id) => (
            <input
              id={id}
              type="password"
              name="token"
              autoComplete="current-password"
              spellCheck={false}
              autoFocus={!offer.name}
              required
              value={token}
              onChange={(event) => setToken(event.target.value)}
              placeholder="muster_…"
              {...((wrong || why) && { "aria-invalid": true, "aria-describedby": "sign-in-wrong" })}
            />
          )}
        </Field>
        {(wrong || why) && (
          <div className="form-wrong" role="alert" id="sign-in-wrong">
            <p>
              <bdi>{wrong || why}</bdi>
            </p>
          </div>
        )}
        <button
          type="submit"
          className={`button ${offer.name ? "" : "button-primary"}`}
          disabled={busy || token.trim() === ""}
        >
          {busy ? "Signing in …" : "Sign in"}
        </button>
        <details className="faint">
          <summary>Where do I get a token?</summary>
          <p>
            On the server's machine, <code>admin.token</code> in its data directory holds the first one. An admin makes
            more, for people who only look:
          </p>
          <pre>muster tokens create NAME --role viewer</pre>
          <p>The token stays in this tab and is forgotten when you close it.</p>
        </details>
        <Link href="/api">API reference</Link>
      </form>
    </main>
  );
}
