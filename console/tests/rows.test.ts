import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Filtered,
  matches,
  naturalKey,
  nextOrder,
  orderText,
  parseOrder,
  remembered,
  sorted,
  terms,
  visible,
} from "../src/logic/rows.ts";

test("names sort by the value of their numbers, without case", () => {
  const names = ["web10", "Web2", "db007", "web1", "db7a"];
  assert.deepEqual(sorted(names, naturalKey, "ascending"), ["db007", "db7a", "web1", "Web2", "web10"]);
});

test("rows without a value are last in both directions, and equal rows keep their order", () => {
  const rows = [{ n: 1 }, { n: null }, { n: 2 }, { n: 1, second: true }];
  const key = (row: { n: number | null }) => row.n;
  assert.deepEqual(sorted(rows, key, "ascending").map(key), [1, 1, 2, null]);
  assert.deepEqual(sorted(rows, key, "descending").map(key), [2, 1, 1, null]);
  assert.equal("second" in (sorted(rows, key, "descending")[1] ?? {}), false);
});

test("a row must have all words of the filter", () => {
  assert.deepEqual(terms("  Web  NODE1 "), ["web", "node1"]);
  assert.equal(matches("web1 node1", terms("web node1")), true);
  assert.equal(matches("web1 node1", terms("web node2")), false);
  assert.equal(matches("anything", terms("  ")), true);
});

test("a filter that grows and shrinks gives what it would give at once", () => {
  const filtered = new Filtered((row: string) => row);
  const rows = ["web1 node1", "web2 node1", "db1 node1", "db2 node2"];
  const direct = (text: string) => rows.filter((row) => matches(row, terms(text)));
  for (const text of ["w", "we", "web", "web 1", "web", "", "node1", "no", "1", "1 d", "x", ""]) {
    assert.deepEqual(filtered.rows(rows, text), direct(text), text);
  }
  assert.deepEqual(filtered.rows(["web3"], "web"), ["web3"]);
});

test("a column's first click has its own direction, the next ones turn", () => {
  const order = parseOrder("-memory", { column: "name", direction: "ascending" });
  assert.deepEqual(order, { column: "memory", direction: "descending" });
  assert.equal(orderText(nextOrder(order, "memory", "descending")), "memory");
  assert.equal(orderText(nextOrder(order, "name", "ascending")), "name");
});

test("what is computed from a row is computed once", () => {
  let count = 0;
  const length = remembered((row: { name: string }) => {
    count += 1;
    return row.name.length;
  });
  const row = { name: "web1" };
  assert.equal(length(row) + length(row), 8);
  assert.equal(count, 1);
});

test("the drawn part has the rows in view with a margin, and ends with the list", () => {
  assert.deepEqual(visible(0, 320, 32, 1000, 2), { first: 0, end: 12 });
  assert.deepEqual(visible(3200, 320, 32, 1000, 2), { first: 98, end: 112 });
  assert.deepEqual(visible(32_000, 320, 32, 5, 2), { first: 5, end: 5 });
});
