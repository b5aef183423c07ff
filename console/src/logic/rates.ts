// What a node or an instance used, as lines over time: counters become rates.

export interface Used {
  readonly time: number;
  readonly processor: number;
  readonly memory: number;
  readonly read: number;
  readonly written: number;
  readonly received: number;
  readonly sent: number;
}

type Line = (number | null)[];

/** Lines with a value for each time; null where nothing is known, so that the line has a gap. */
export interface Lines {
  readonly times: number[];
  /** Processors in use, as a number: 1.5 of 4. */
  readonly processors: Line;
  readonly memory: Line;
  readonly read: Line;
  readonly written: Line;
  readonly received: Line;
  readonly sent: Line;
}

/** Seconds without a value after which a line has a gap; values come once a minute. */
export const GAP_SECONDS = 150;

const COUNTERS = {
  processors: "processor",
  read: "read",
  written: "written",
  received: "received",
  sent: "sent",
} as const;

/** The lines of values in order of time. A counter that is smaller than before has begun again. */
export function lines(values: readonly Used[]): Lines {
  const drawn: Lines = { times: [], processors: [], memory: [], read: [], written: [], received: [], sent: [] };
  for (const [i, value] of values.entries()) {
    const before = values[i - 1];
    const seconds = before ? value.time - before.time : 0;
    const isNext = before !== undefined && seconds > 0 && seconds <= GAP_SECONDS;
    if (before && seconds > GAP_SECONDS) add(drawn, before.time + 1);
    drawn.times.push(value.time);
    drawn.memory.push(value.memory);
    for (const [line, field] of Object.entries(COUNTERS) as [keyof typeof COUNTERS, keyof Used][]) {
      const growth = isNext ? value[field] - before[field] : -1;
      drawn[line].push(growth >= 0 ? growth / seconds : null);
    }
  }
  return drawn;
}

/** Add a time at which nothing is known. */
function add(drawn: Lines, time: number): void {
  drawn.times.push(time);
  for (const line of [drawn.memory, ...Object.keys(COUNTERS).map((key) => drawn[key as keyof typeof COUNTERS])]) {
    line.push(null);
  }
}

/** The values of the last day: those that were known, and newer ones, each time once. */
export function merged(known: readonly Used[], newer: readonly Used[]): Used[] {
  const last = known.at(-1)?.time ?? 0;
  const all = [...known, ...newer.filter((value) => value.time > last)];
  const first = (all.at(-1)?.time ?? 0) - 86_400;
  return all.filter((value) => value.time >= first);
}
