/** Times and durations in words. The same words as the command line's. */

export function seconds(from: string | null | undefined, until: number): number | null {
  const start = from ? Date.parse(from) : NaN;
  return Number.isNaN(start) ? null : (until - start) / 1000;
}

/** `0m 12s`, `1h 05m`: for what runs. */
export function running(value: number): string {
  const whole = Math.max(0, Math.floor(value));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours >= 48) return `${Math.floor(hours / 24)}d ${hours % 24}h`;
  if (hours > 0) return `${hours}h ${String(minutes).padStart(2, "0")}m`;
  return `${minutes}m ${String(rest).padStart(2, "0")}s`;
}

/** `0.42 s`, `12.3 s`, `4m 12s`: for what took. */
export function took(value: number): string {
  if (value < 0.005) return "0 s";
  if (value < 1) return `${value.toFixed(2)} s`;
  if (value < 60) return `${value.toFixed(1)} s`;
  return running(value);
}

/** `45 s`, `12m`, `6m 30s`, `1h 30m`: for what is set. */
export function given(value: number): string {
  if (value < 120) return `${Math.round(value * 10) / 10} s`;
  const whole = Math.round(value);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const parts = [hours > 0 && `${hours}h`, minutes > 0 && `${minutes}m`, rest > 0 && hours === 0 && `${rest}s`];
  return parts.filter(Boolean).join(" ");
}

/** `12 s`, `3 min`: a guess has no decimals. */
export function about(value: number): string {
  if (value < 90) return `${Math.max(1, Math.round(value))} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return `${Math.round(value / 3600)} h`;
}

/** `just now`, `12 s ago`, `3 min ago`, `2 h ago`, `5 d ago`. */
export function ago(value: number): string {
  if (value < 2) return "just now";
  if (value < 60) return `${Math.floor(value)} s ago`;
  if (value < 3600) return `${Math.floor(value / 60)} min ago`;
  if (value < 172_800) return `${Math.floor(value / 3600)} h ago`;
  return `${Math.floor(value / 86_400)} d ago`;
}

// Made once: a formatter takes longer to make than a row of a table to draw.
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

/** `09:30`, in the viewer's zone. */
export function clockTime(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : CLOCK.format(date);
}

const TO_THE_SECOND = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hour12: false });
const WITH_DAY = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  hour12: false,
});

/** `09:30:12`, in the viewer's zone; `4 May, 09:30` of what is more than half a day old. */
export function stamp(at: string, passed: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : (passed < 43_200 ? TO_THE_SECOND : WITH_DAY).format(date);
}

/** The exact time, in the viewer's zone, with the zone. */
export function exact(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : EXACT.format(date);
}
