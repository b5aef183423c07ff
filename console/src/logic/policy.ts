// The instance policy: how large an instance may be. A form checks it as one types; the server decides.

import { number, size } from "./format.ts";

export interface Policy {
  readonly minmax: readonly Bounds[];
  readonly "disk-templates"?: readonly string[];
}

export interface Bounds {
  readonly min: Readonly<Record<string, number>>;
  readonly max: Readonly<Record<string, number>>;
}

export type Spec = "memory-size" | "cpu-count" | "disk-size" | "disk-count" | "nic-count";

const UNLIMITED = 2 ** 40; // what the policy has where nothing is set
const SIZES: ReadonlySet<Spec> = new Set(["memory-size", "disk-size"]);

interface Limit {
  readonly least: number;
  readonly most: number;
}

function limits(policy: Policy, spec: Spec): Limit[] {
  return policy.minmax.map((bounds) => ({
    least: bounds.min[spec] ?? 0,
    most: bounds.max[spec] ?? UNLIMITED,
  }));
}

function amount(spec: Spec, value: number): string {
  return SIZES.has(spec) ? size(value) : number(value);
}

function rangeWords(spec: Spec, { least, most }: Limit): string {
  if (most >= UNLIMITED) return least > 0 ? `at least ${amount(spec, least)}` : "";
  return least > 0 ? `${amount(spec, least)} to ${amount(spec, most)}` : `at most ${amount(spec, most)}`;
}

/** Return what a policy allows, for the text beside a field; empty if it allows everything. */
export function allowedWords(policy: Policy | null, spec: Spec): string {
  if (!policy) return "";
  const words = [...new Set(limits(policy, spec).map((limit) => rangeWords(spec, limit)))];
  return words.includes("") ? "" : words.join(", or ");
}

/** Return why a policy refuses a value; empty if it allows the value. */
export function refusal(policy: Policy | null, spec: Spec, value: number): string {
  if (!policy || limits(policy, spec).some(({ least, most }) => value >= least && value <= most)) return "";
  return `The instance policy allows ${allowedWords(policy, spec)}.`;
}
