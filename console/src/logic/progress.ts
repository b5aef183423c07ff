// The progress of a job, as the event stream reports it: "disk 0: 512 of 4096 MiB (12 %), 210 MiB/s, 17 s to go".

export interface Progress {
  readonly share: number | null; // from 0 to 1; null if the total is not known
  readonly words: string;
}

/** Return the progress of a job; null without any. */
export function progressOf(text: string): Progress | null {
  if (!text) return null;
  const percent = /\((\d+) %\)/.exec(text)?.[1];
  return { share: percent === undefined ? null : Math.min(1, Number(percent) / 100), words: text };
}
