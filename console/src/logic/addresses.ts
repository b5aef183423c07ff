// Addresses as numbers, and the map of a pool: what each address of a range is.

export type Family = 4 | 6;

export interface Range {
  readonly family: Family;
  readonly first: bigint;
  readonly last: bigint;
}

export type State = "free" | "used" | "guest" | "quarantined" | "external" | "gateway" | "end";

export interface Cell {
  readonly state: State;
  readonly owner: string;
}

const V4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/;

/** Return the number of an address, or null if the text is not an address. */
export function parseAddress(text: string): { family: Family; value: bigint } | null {
  const four = V4.exec(text);
  if (four) {
    const bytes = four.slice(1).map(Number);
    if (bytes.some((byte) => byte > 255)) return null;
    return { family: 4, value: bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n) };
  }
  if (!/^[0-9a-f:]+$/i.test(text) || !text.includes(":")) return null;
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [head = [], tail = []] = halves.map((half) => (half ? half.split(":") : []));
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  const groups = [...head, ...Array<string>(missing).fill("0"), ...tail];
  if (groups.some((group) => !/^[0-9a-f]{1,4}$/i.test(group))) return null;
  return { family: 6, value: groups.reduce((sum, group) => sum * 65536n + BigInt(`0x${group}`), 0n) };
}

/** Return an address as it is usually written (RFC 5952). */
export function formatAddress(family: Family, value: bigint): string {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join(".");
  const groups = Array.from({ length: 8 }, (_, i) => Number((value >> BigInt(112 - 16 * i)) & 65535n));
  let start = -1;
  let length = 1;
  for (let i = 0; i < 8; i += 1) {
    let end = i;
    while (end < 8 && groups[end] === 0) end += 1;
    if (end - i > length) [start, length] = [i, end - i];
  }
  const hex = groups.map((group) => group.toString(16));
  if (start < 0) return hex.join(":");
  return `${hex.slice(0, start).join(":")}::${hex.slice(start + length).join(":")}`;
}

/** Return the range of "ADDRESS", "FIRST-LAST" or a CIDR, or null. */
export function parseRange(text: string): Range | null {
  const [base = "", bits] = text.split("/");
  if (bits !== undefined) {
    const address = parseAddress(base);
    if (!address || !/^\d+$/.test(bits)) return null;
    const length = BigInt(address.family === 4 ? 32 : 128) - BigInt(bits);
    if (length < 0n) return null;
    const first = (address.value >> length) << length;
    return { family: address.family, first, last: first + (1n << length) - 1n };
  }
  const [from = "", to] = text.split("-").map((part) => part.trim());
  const first = parseAddress(from);
  const last = to === undefined ? first : parseAddress(to);
  if (!first || !last || first.family !== last.family || last.value < first.value) return null;
  return { family: first.family, first: first.value, last: last.value };
}

/** Return the ranges of a list such as "192.0.2.1, 192.0.2.7-192.0.2.9"; parts that are not ranges are ignored. */
export function parseRanges(text: string): Range[] {
  return text
    .split(",")
    .map((part) => parseRange(part.trim()))
    .filter((range) => range !== null);
}

export function rangeSize(range: Range): bigint {
  return range.last - range.first + 1n;
}

export function contains(outer: Range, family: Family, value: bigint): boolean {
  return outer.family === family && value >= outer.first && value <= outer.last;
}

/** What keeps addresses of a subnet from being free, sorted by address. */
export class Usage {
  readonly #cells = new Map<bigint, Cell>();
  readonly #external: readonly Range[];
  readonly #family: Family;
  readonly #ends: ReadonlySet<bigint>;
  #sorted: bigint[] | null = null;

  constructor(subnet: Range, external: readonly Range[]) {
    this.#family = subnet.family;
    this.#external = external.filter((range) => range.family === subnet.family);
    const isWhole = rangeSize(subnet) > 2n;
    this.#ends = new Set(isWhole ? [subnet.first, ...(subnet.family === 4 ? [subnet.last] : [])] : []);
  }

  add(address: string, state: State, owner: string): void {
    const parsed = parseAddress(address);
    if (parsed?.family !== this.#family) return;
    this.#cells.set(parsed.value, { state, owner });
    this.#sorted = null;
  }

  at(value: bigint): Cell {
    const cell = this.#cells.get(value);
    if (cell) return cell;
    if (this.#external.some((range) => contains(range, this.#family, value))) return { state: "external", owner: "" };
    return { state: this.#ends.has(value) ? "end" : "free", owner: "" };
  }

  /** Return how many addresses of a range are not free; those that are both reserved and in use count once. */
  taken(range: Range): bigint {
    const inside = this.#between(range);
    let count = BigInt(inside.length);
    for (const reserved of this.#external) {
      const first = reserved.first > range.first ? reserved.first : range.first;
      const last = reserved.last < range.last ? reserved.last : range.last;
      if (first > last) continue;
      count += last - first + 1n - BigInt(this.#between({ family: range.family, first, last }).length);
    }
    return count;
  }

  #between(range: Range): bigint[] {
    this.#sorted ??= [...this.#cells.keys()].sort((a, b) => (a < b ? -1 : 1));
    return this.#sorted.slice(position(this.#sorted, range.first), position(this.#sorted, range.last + 1n));
  }
}

/** Return the index of the first number that is not below a value. */
function position(numbers: readonly bigint[], value: bigint): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] as bigint) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return equal parts of a range, at most `most`, each of a power of two of addresses that is at least `least`. */
export function blocks(range: Range, most: number, least: number): Range[] {
  let length = BigInt(least);
  while (rangeSize(range) > length * BigInt(most)) length *= 2n;
  const parts: Range[] = [];
  for (let first = range.first - (range.first % length); first <= range.last; first += length) {
    const last = first + length - 1n;
    parts.push({
      family: range.family,
      first: first > range.first ? first : range.first,
      last: last < range.last ? last : range.last,
    });
  }
  return parts;
}
