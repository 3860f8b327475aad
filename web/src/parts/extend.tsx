/** More time for the running nodes of a provision. */

import { type FormEvent, useState } from "react";
import { post } from "../api/client";
import { useMay } from "./act";
import { Modal } from "./dialog";
import { Field } from "./field";

const MINUTES = [15, 30, 60, 120, 240];

/** `of` tells several such buttons on a page apart. */
export function ExtendButton({ operationId, of }: { operationId: string; of?: string }) {
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
      await post(`/operations/${encodeURIComponent(operationId)}/extend`, { by: minutes * 60 });
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
        Extend{of && <span className="unseen"> {of}</span>}
      </button>
      {open && (
        <Modal title="Give its nodes more time" close={() => setOpen(false)}>
          <form onSubmit={(event) => void submit(event)} className="form">
            <Field label="By how many minutes">
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
                Extend
              </button>
            </div>
          </form>
        </Modal>
      )}
    </span>
  );
}
