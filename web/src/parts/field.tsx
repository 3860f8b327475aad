/** A field of a form with its label and, below, a hint. */

import { type ReactNode, useId } from "react";

interface Props {
  label: string;
  hint?: string;
  className?: string;
  children: (id: string) => ReactNode;
}

export function Field({ label, hint, className = "", children }: Props) {
  const id = useId();
  return (
    <div className={`field ${className}`}>
      <label htmlFor={id}>{label}</label>
      {children(id)}
      {hint && <small className="faint">{hint}</small>}
    </div>
  );
}
