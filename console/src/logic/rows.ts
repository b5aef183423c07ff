// Filtering and sorting of long lists: 50,000 rows at each key. What a row is compared by is computed once per row.

export type Direction = "ascending" | "descending";

export interface Order {
  readonly column: string;
  readonly direction: Direction;
}

const MOST_KNOWN = 50; // results of filters that are kept

/** Return a key by which texts sort as people expect: without case, and with numbers by value (web2 before web10). */
export function naturalKey(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => digits.replace(/^0+(?=\d)/, "").padStart(15, "0"));
}

/** The words of a filter, in lower case; a row must have all of them. */
export function terms(filter: string): string[] {
  return filter.toLowerCase().split(/\s+/).filter(Boolean);
}

export function matches(text: string, words: readonly string[]): boolean {
  return words.every((word) => text.includes(word));
}

/** Filters one list at each key: the next letter filters what the last one left, and Backspace has the list before. */
export class Filtered<Row> {
  readonly #text: (row: Row) => string;
  #base: readonly Row[] = [];
  #known = new Map<string, readonly Row[]>();

  constructor(text: (row: Row) => string) {
    this.#text = text;
  }

  rows(base: readonly Row[], filter: string): readonly Row[] {
    if (base !== this.#base) this.#known = new Map([["", base]]);
    this.#base = base;
    let found = this.#known.get(filter);
    if (!found) {
      let start = filter;
      while (!this.#known.has(start)) start = start.slice(0, -1);
      const words = terms(filter);
      found = (this.#known.get(start) as readonly Row[]).filter((row) => matches(this.#text(row), words));
      if (this.#known.size > MOST_KNOWN) this.#known = new Map([["", base]]);
      this.#known.set(filter, found);
    }
    return found;
  }
}

/** Remembers for each row what is computed from it; rows are replaced, never changed, so it cannot be outdated. */
export function remembered<Row extends object, Value>(compute: (row: Row) => Value): (row: Row) => Value {
  const known = new WeakMap<Row, Value>();
  return (row) => {
    let found = known.get(row);
    if (found === undefined) {
      found = compute(row);
      known.set(row, found);
    }
    return found;
  };
}

/** Compute what is remembered ahead of its use, some rows at a time, so that the first key is as fast as the next. */
export function warm<Row>(rows: readonly Row[], compute: readonly ((row: Row) => unknown)[], from = 0): void {
  const end = from + 2_000;
  for (const row of rows.slice(from, end)) for (const each of compute) each(row);
  if (end < rows.length) setTimeout(() => warm(rows, compute, end), 0);
}

/** Return the rows in order of a key; rows without a key (null) are last in both directions. */
export function sorted<Row>(
  rows: readonly Row[],
  key: (row: Row) => string | number | null,
  direction: Direction,
): Row[] {
  const sign = direction === "ascending" ? 1 : -1;
  const keyed = rows.map((row) => ({ row, key: key(row) }));
  keyed.sort((a, b) => {
    if (a.key === b.key) return 0;
    if (a.key === null) return 1;
    if (b.key === null) return -1;
    return a.key < b.key ? -sign : sign;
  });
  return keyed.map((entry) => entry.row);
}

/** An order as it is written in the address of a page: "memory", or "-memory" for the descending one. */
export function parseOrder(text: string | undefined, fallback: Order): Order {
  if (!text) return fallback;
  return text.startsWith("-")
    ? { column: text.slice(1), direction: "descending" }
    : { column: text, direction: "ascending" };
}

export function orderText(order: Order): string {
  return order.direction === "descending" ? `-${order.column}` : order.column;
}

/** The order after a click on the head of a column: the other direction if it is the present column. */
export function nextOrder(order: Order, column: string, first: Direction): Order {
  if (order.column !== column) return { column, direction: first };
  return { column, direction: order.direction === "ascending" ? "descending" : "ascending" };
}

/** The part of a long list that is drawn: the first row, and the row after the last. */
export function visible(
  scrolled: number,
  height: number,
  rowHeight: number,
  count: number,
  margin = 10,
): { first: number; end: number } {
  const first = Math.max(0, Math.min(count, Math.floor(scrolled / rowHeight) - margin));
  const end = Math.min(count, Math.ceil((scrolled + height) / rowHeight) + margin);
  return { first, end: Math.max(first, end) };
}
