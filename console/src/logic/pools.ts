// The pools of a network in words: how many addresses are free, and from which pool the next one comes.

import { list, number, plural } from "./format.ts";

export interface PoolRoom {
  readonly subnet: string;
  readonly name: string;
  readonly range: string;
  readonly free: number;
}

function isV6(pool: PoolRoom): boolean {
  return pool.range.includes(":");
}

/** "87 addresses free", or by IP version: "no IPv4 and 65,518 IPv6 free". */
export function freeWords(pools: readonly PoolRoom[]): string {
  if (!pools.length) return "no pool";
  const count = (ofVersion: readonly PoolRoom[]) => ofVersion.reduce((sum, pool) => sum + pool.free, 0);
  const versions = [pools.filter((pool) => !isV6(pool)), pools.filter(isV6)];
  if (versions.some((ofVersion) => !ofVersion.length)) {
    return count(pools) ? `${plural(count(pools), "address", "addresses")} free` : "full";
  }
  const [four = 0, six = 0] = versions.map(count);
  if (!four && !six) return "full";
  const words = [`${four ? number(four) : "no"} IPv4`, `${six ? number(six) : "no"} IPv6`];
  return `${list(words)} free`;
}

/** Where an address comes from that is from any pool: the first pool that has a free one. */
export function automaticWords(pools: readonly PoolRoom[]): string {
  if (!pools.length) return "no pool";
  const next = pools.find((pool) => pool.free > 0);
  return next ? `from ${next.name || next.range}, ${number(next.free)} free` : "every pool is full";
}
