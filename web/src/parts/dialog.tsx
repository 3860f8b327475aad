/** A dialog: the browser's own, which keeps the focus inside, closes on Escape and gives the focus back. */

import { type ReactNode, useId, useLayoutEffect, useRef } from "react";
import { Icon } from "./icons";

export function Modal({ title, close, children }: { title: string; close: () => void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // Before it leaves the document: a dialog that is closed after that can't give the focus back.
  useLayoutEffect(() => {
    const shown = dialog.current;
    const before = document.activeElement;
    if (shown && !shown.open) shown.showModal();
    shown?.querySelector<HTMLElement>("[data-focus]")?.focus();
    return () => {
      shown?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      className="modal"
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <div className="modal-inside">
        <header className="modal-head">
          <h2 id={heading}>{title}</h2>
          <button type="button" className="button button-quiet" onClick={close} aria-label="Close">
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
