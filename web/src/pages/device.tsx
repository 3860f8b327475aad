/** A terminal that asks to be signed in (`muster login`): the person compares its code, and confirms or denies. */

import { type FormEvent, useEffect, useState } from "react";
import { get, post, Refused } from "../api/client";
import type { WaitingDevice } from "../api/types";
import { useWho } from "../parts/act";
import { Field } from "../parts/field";
import { Loading, Trouble } from "../parts/states";
import { setQuery, useAddress } from "../routing/router";

export function DevicePage() {
  const code = useAddress().query.get("code") ?? "";
  return (
    <section className="sign-in">
      <div className="card sign-in-card" data-testid="device">
        <h1>Sign in a terminal</h1>
        {code === "" ? <CodeForm /> : <Waiting key={code} code={code} />}
      </div>
    </section>
  );
}

function CodeForm() {
  const [typed, setTyped] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setQuery({ code: typed.trim() }, "push");
  };
  return (
    <form onSubmit={submit}>
      <Field label="Code" hint="As the terminal shows it, e.g. BCDF-GHJK.">
        {(id) => (
          <input
            id={id}
            autoComplete="off"
            spellCheck={false}
            autoFocus
            required
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
        )}
      </Field>
      <button type="submit" className="button button-primary" disabled={typed.trim() === ""}>
        Continue
      </button>
    </form>
  );
}

function Waiting({ code }: { code: string }) {
  const who = useWho();
  const [device, setDevice] = useState<WaitingDevice | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const path = `/device/${encodeURIComponent(code)}`;
  useEffect(() => {
    const call = new AbortController();
    get<WaitingDevice>(path, undefined, call.signal)
      .then(setDevice)
      .catch((found: Error) => call.signal.aborted || setError(found));
    return () => call.abort();
  }, [path]);
  const settle = async (how: "confirm" | "deny") => {
    setBusy(true);
    try {
      setDevice(await post<WaitingDevice>(`${path}/${how}`));
    } catch (found) {
      setError(found as Error);
    } finally {
      setBusy(false);
    }
  };
  if (error instanceof Refused && error.notFound) return <Unknown code={code} />;
  if (error) return <Trouble error={error} />;
  if (device === null) return <Loading />;
  if (device.settled !== null) return <Settled confirmed={device.settled === "confirmed"} />;
  return (
    <>
      <p>
        <bdi className="name">{device.machine}</bdi> asks to be signed in as <bdi className="name">{who?.name}</bdi> (
        {who?.role}).
      </p>
      <p>
        Its code: <strong className="mono">{device.user_code}</strong>
      </p>
      <p className="faint">Confirm only if you ran muster login yourself just now, and the terminal shows this code.</p>
      <button type="button" className="button button-primary" disabled={busy} onClick={() => void settle("confirm")}>
        Confirm
      </button>
      <button type="button" className="button" disabled={busy} onClick={() => void settle("deny")}>
        Deny
      </button>
    </>
  );
}

function Unknown({ code }: { code: string }) {
  return (
    <>
      <p role="alert">
        No terminal waits with the code <bdi className="mono">{code}</bdi>. It may have expired: run muster login again.
      </p>
      <CodeForm />
    </>
  );
}

function Settled({ confirmed }: { confirmed: boolean }) {
  return (
    <p role="status">
      {confirmed
        ? "The terminal is signed in. You can close this page."
        : "The terminal was refused. If you did not expect it, tell an admin."}
    </p>
  );
}
