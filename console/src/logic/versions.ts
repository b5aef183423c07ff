// Two people who edit one object: what differs between the object that a form was opened with and the present one.

import { value } from "./format.ts";

export interface Difference {
  readonly name: string;
  readonly before: string;
  readonly after: string;
}

type Values = Readonly<Record<string, unknown>>;

/** Return how the present object differs from the one before, for the fields with a name for people. */
export function differences(before: Values, after: Values, names: Readonly<Record<string, string>>): Difference[] {
  return Object.entries(names)
    .map(([field, name]) => ({ name, before: text(before[field]), after: text(after[field]) }))
    .filter((difference) => difference.before !== difference.after);
}

function text(field: unknown): string {
  if (Array.isArray(field)) return field.map(text).join(", ") || "-";
  return value(field);
}
