// The ids of a segment range as a bar: pieces in use and pieces that are free.

export interface Piece {
  readonly first: number;
  readonly last: number;
  readonly networks: readonly string[]; // that have the ids; empty for free ones
}

export interface Segment {
  readonly id: number;
  readonly network: string;
}

const MOST_PIECES = 400;

/** Return the ids of a range in order, each run of used or free ids as a piece; at most `MOST_PIECES` of them. */
export function pieces(minimum: number, maximum: number, segments: readonly Segment[]): Piece[] {
  const inside = segments.filter(({ id }) => id >= minimum && id <= maximum).sort((a, b) => a.id - b.id);
  const result: Piece[] = [];
  let next = minimum;
  for (const { id, network } of inside) {
    const last = result.at(-1);
    if (last && last.networks.length && last.last === id - 1 && next === id) {
      result[result.length - 1] = { ...last, last: id, networks: [...last.networks, network] };
    } else {
      if (id > next) result.push({ first: next, last: id - 1, networks: [] });
      if (result.length >= MOST_PIECES) return result;
      result.push({ first: id, last: id, networks: [network] });
    }
    next = id + 1;
  }
  if (next <= maximum) result.push({ first: next, last: maximum, networks: [] });
  return result;
}

export function pieceText({ first, last, networks }: Piece): string {
  const ids = first === last ? `${first}` : `${first} to ${last}`;
  return networks.length ? `${ids}: ${networks.join(", ")}` : `${ids}: free`;
}
