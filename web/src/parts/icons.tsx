/** Signs. A state is never told by colour alone: each tone has a shape of its own. */

import type { ReactNode } from "react";
import type { Shade } from "../words/names";

function Sign({ children, turning = false }: { children: ReactNode; turning?: boolean }) {
  return (
    <svg
      className={turning ? "sign sign-turning" : "sign"}
      viewBox="0 0 16 16"
      width="16"
      height="16"
      aria-hidden="true"
      focusable="false"
    >
      {children}
    </svg>
  );
}

const stroke = {
  fill: "none",
  stroke: "currentColor",
  strokeWidth: 1.75,
  strokeLinecap: "round",
  strokeLinejoin: "round",
} as const;

const TONES: Record<Shade, ReactNode> = {
  pending: <circle cx="8" cy="8" r="5" {...stroke} strokeDasharray="2.2 2.4" />,
  neutral: <circle cx="8" cy="8" r="5" fill="currentColor" />,
  active: (
    <>
      <circle cx="8" cy="8" r="5.25" {...stroke} opacity="0.35" />
      <path d="M8 2.75A5.25 5.25 0 0 1 13.25 8" {...stroke} />
    </>
  ),
  standby: (
    <>
      <circle cx="8" cy="8" r="5.6" {...stroke} />
      <path d="M8 5.2V8l1.9 1.5" {...stroke} />
    </>
  ),
  busy: (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" />
      <path d="M6.4 5.2v5.6L10.9 8z" fill="var(--surface)" />
    </>
  ),
  success: (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" />
      <path d="M5.2 8.2l2 2 3.7-4.2" {...stroke} stroke="var(--surface)" />
    </>
  ),
  warning: (
    <>
      <path
        d="M8 1.9l6.4 11.3H1.6z"
        fill="currentColor"
        stroke="currentColor"
        strokeWidth="1.4"
        strokeLinejoin="round"
      />
      <path d="M8 6v3.4M8 11.5v.1" {...stroke} stroke="var(--surface)" />
    </>
  ),
  danger: (
    <>
      <path d="M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2z" fill="currentColor" />
      <path d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4" {...stroke} stroke="var(--surface)" />
    </>
  ),
};

export function ToneSign({ tone }: { tone: Shade }) {
  return <Sign turning={tone === "active"}>{TONES[tone] ?? TONES.pending}</Sign>;
}

const PATHS = {
  plus: "M8 3v10M3 8h10",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6L12.5 8z",
  copy: "M5.5 5.5V2.8h7.7v7.7h-2.7M2.8 5.5h7.7v7.7H2.8z",
  out: "M6.5 3H3v10h3.5M7 8h6M10.5 5.2L13.3 8l-2.8 2.8",
  search: "M7 11.5A4.5 4.5 0 1 0 7 2.5a4.5 4.5 0 0 0 0 9zM10.4 10.4L14 14",
  up: "M4 9.5L8 5.5l4 4",
  down: "M4 6.5l4 4 4-4",
  person: "M8 7.6a2.6 2.6 0 1 0 0-5.2 2.6 2.6 0 0 0 0 5.2zM2.9 13.6a5.1 5.1 0 0 1 10.2 0",
  close: "M4 4l8 8M12 4l-8 8",
} as const;

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <Sign>
      <path d={PATHS[name]} {...stroke} />
    </Sign>
  );
}
