/** A button that does something on the server: not there for who may not use it, busy meanwhile, says what went wrong. */

import { type ReactNode, useState, useSyncExternalStore } from "react";
import { may, session } from "../api/session";
import type { Role, Who } from "../api/types";
import { Modal } from "./dialog";

export function useWho(): Who | null {
  return useSyncExternalStore(session.subscribe, session.get).who;
}

export function useMay(role: Role): boolean {
  return may(useWho(), role);
}

interface ActProps {
  needs: Role;
  act: () => Promise<unknown>;
  children: ReactNode;
  /** Asked before it is done. */
  confirm?: { title: string; text: ReactNode; yes: string; /** Leaves everything as it is. */ no?: string };
  kind?: "plain" | "primary" | "danger";
  done?: () => void;
}

export function Act({ needs, act, children, confirm, kind = "plain", done }: ActProps) {
  const allowed = useMay(needs);
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  if (!allowed) return null;

  const go = async () => {
    setBusy(true);
    setWrong("");
    try {
      await act();
      setAsking(false);
      done?.();
    } catch (error) {
      setWrong((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const look = `button ${kind === "plain" ? "" : `button-${kind}`}`;
  return (
    <span className="act">
      <button
        type="button"
        className={look}
        disabled={busy}
        onClick={confirm ? () => setAsking(true) : () => void go()}
      >
        {children}
      </button>
      {wrong && !asking && (
        <span className="act-wrong" role="alert">
          {wrong}
        </span>
      )}
      {confirm && asking && (
        <Modal title={confirm.title} close={() => setAsking(false)}>
          <div className="modal-text">{confirm.text}</div>
          {wrong && (
            <p className="form-wrong" role="alert">
              {wrong}
            </p>
          )}
          <div className="modal-acts">
            <button type="button" className="button" data-focus onClick={() => setAsking(false)}>
              {confirm.no ?? "Cancel"}
            </button>
            <button
              type="button"
              className={`button button-${kind === "plain" ? "primary" : kind}`}
              disabled={busy}
              onClick={() => void go()}
            >
              {confirm.yes}
            </button>
          </div>
        </Modal>
      )}
    </span>
  );
}
