// The progress of a job, as the event stream reports it: how much is done, how fast, and how long it will take.

import { duration, size } from "./format.ts";

export interface Progress {
  readonly share: number; // from 0 to 1
  readonly words: string;
}

type Values = Readonly<Record<string, unknown>>;

function amount(values: Values, name: string): number | null {
  const value = values[name];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Return the progress in words; sizes are MiB, times seconds. Whatever the server does not know is left out. */
export function progressOf(values: Values): Progress {
  const done = amount(values, "done");
  const total = amount(values, "total");
  const share = amount(values, "share") ?? (done !== null && total ? done / total : 0);
  const rate = amount(values, "rate");
  const left = amount(values, "left") ?? (rate && total !== null && done !== null ? (total - done) / rate : null);
  const words = [
    `${Math.floor(share * 100)} %`,
    ...(done !== null && total !== null ? [`${size(done)} of ${size(total)}`] : []),
    ...(rate ? [`${size(rate)}/s`] : []),
    ...(left !== null ? [`${duration(left)} to go`] : []),
  ];
  return { share: Math.max(0, Math.min(1, share)), words: words.join(" · ") };
}
