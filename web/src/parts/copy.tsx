/** Copying, also where the browser gives no clipboard (a plain address inside a network): then the text is shown, selected. */

import { type ReactNode, useEffect, useRef, useState } from "react";
import { Modal } from "./dialog";
import { Icon } from "./icons";

const SAID_FOR = 2000;

export function Copy({
  text,
  children,
  label,
}: {
  text: () => string | Promise<string>;
  children?: ReactNode;
  label?: string;
}) {
  const [said, setSaid] = useState("");
  const [byHand, setByHand] = useState<string | null>(null);
  useEffect(() => {
    if (said === "") return undefined;
    const timer = setTimeout(() => setSaid(""), SAID_FOR);
    return () => clearTimeout(timer);
  }, [said]);

  const copy = async () => {
    let found = "";
    try {
      found = await text();
    } catch (error) {
      setSaid((error as Error).message);
      return;
    }
    try {
      await navigator.clipboard.writeText(found);
      setSaid("Copied");
    } catch {
      setByHand(found);
    }
  };
  return (
    <span className="act">
      <button
        type="button"
        className={`button ${children ? "" : "button-quiet"}`}
        onClick={() => void copy()}
        {...(label ? { "aria-label": label } : {})}
      >
        <Icon name="copy" />
        {children}
      </button>
      <span className="said" role="status">
        {said}
      </span>
      {byHand !== null && (
        <Modal title="Copy this" close={() => setByHand(null)}>
          <Selected text={byHand} />
        </Modal>
      )}
    </span>
  );
}

function Selected({ text }: { text: string }) {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.select(), []);
  return <textarea ref={area} className="copy-by-hand" readOnly rows={16} value={text} aria-label="The text to copy" />;
}
