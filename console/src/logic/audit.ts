// The entries of the audit as the server answers them, and the words for their changes.

export interface FieldChange {
  readonly path: string;
  readonly before: unknown;
  readonly after: unknown;
}

export interface ObjectChange {
  readonly kind: string;
  readonly key: string;
  readonly name: string;
  readonly what: string;
  /** Null if the journal does not have the object as it was before. */
  readonly fields: readonly FieldChange[] | null;
  readonly more_fields: number;
}

export interface Entry {
  readonly serial: number;
  readonly time: number;
  readonly job: number;
  readonly user: string;
  readonly door: string;
  readonly peer: string;
  readonly token: string;
  readonly named: string;
  readonly right: string;
  readonly what: string;
  readonly status: string;
  readonly reason: string;
  readonly changes: readonly ObjectChange[];
}

/** From where a user came: an address, or the master's own machine; empty for the cluster itself. */
export function origin(entry: Pick<Entry, "user" | "peer">): string {
  if (!entry.user) return "";
  return entry.peer || "the master";
}

/** A value of a field as one reads it: a text without quotes, a list with commas, nothing as a dash. */
export function valueWords(value: unknown): string {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((each) => typeof each === "string" || typeof each === "number")) {
    return value.length ? value.join(", ") : "–";
  }
  return JSON.stringify(value);
}

export const ALL = "all";

export const PERIODS: readonly (readonly [value: string, text: string])[] = [
  ["3600", "the last hour"],
  ["86400", "the last day"],
  ["604800", "the last 7 days"],
  ["2592000", "the last 30 days"],
  [ALL, "all that is kept"],
];

export const DEFAULT_PERIOD = "86400";

/** Since when a question of a period is, as the server takes it; empty for all that is kept. */
export function since(period: string, now: number): string {
  const seconds = Number(period);
  return period === ALL || Number.isNaN(seconds) ? "" : String(Math.floor(now - seconds));
}
