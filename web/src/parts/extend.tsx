/** More time: for the running nodes of a provision, or for a failed node that is kept for a look. */

import { type FormEvent, useState } from "react";
import { post } from "../api/client";
import { useMay } from "./act";
import { Modal } from "./dialog";
import { Field } from "./field";

const MINUTES = [15, 30, 60, 120, 240];

/** `of` tells several such buttons on a page apart. */
export function ExtendButton({ operationId, of }: { operationId: string; of?: string }) {
  return (
    <TimeButton
      verb="Extend"
      title="Give its nodes more time"
      label="By how many minutes"
      {...(of && { of })}
      send={(seconds) => post(`/operations/${encodeURIComponent(operationId)}/extend`, { by: seconds })}
    />
  );
}

/** It ends when the time is over. */
export function HoldButton({ nodeId, of }: { nodeId: string; of?: string }) {
  return (
    <TimeButton
      verb="Keep"
      title="Keep this node for a look"
      label="For how many minutes from now"
      {...(of && { of })}
      send={(seconds) => post(`/nodes/${encodeURIComponent(nodeId)}/hold`, { seconds })}
    />
  );
}

interface TimeProps {
  verb: string;
  title: string;
  label: string;
  of?: string;
  send: (seconds: number) => Promise<unknown>;
}

function TimeButton({ verb, title, label, of, send }: TimeProps) {
  const allowed = useMay("operator");
  const [open, setOpen] = useState(false);
  const [minutes, setMinutes] = useState(30);
  const [said, setSaid] = useState("");
  const [busy, setBusy] = useState(false);
  if (!allowed) return null;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await send(minutes * 60);
      setOpen(false);
    } catch (error) {
      setSaid((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <span className="act">
      <button type="button" className="button" onClick={() => setOpen(true)}>
        {verb}
        {of && <span className="unseen"> {of}</span>}
      </button>
      {open && (
        <Modal title={title} close={() => setOpen(false)}>
          <form onSubmit={(event) => void submit(event)} className="form">
            <Field label={label}>
              {(id) => (
                <select id={id} data-focus value={minutes} onChange={(event) => setMinutes(Number(event.target.value))}>
                  {MINUTES.map((each) => (
                    <option key={each} value={each}>
                      {each}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            {said && (
              <p className="form-wrong" role="alert">
                {said}
              </p>
            )}
            <div className="modal-acts">
              <button type="button" className="button" onClick={() => setOpen(false)}>
                Cancel
              </button>
              <button type="submit" className="button button-primary" disabled={busy}>
                {verb}
              </button>
            </div>
          </form>
        </Modal>
      )}
    </span>
  );
}
