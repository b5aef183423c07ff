import assert from "node:assert/strict";
import { test } from "node:test";
import { type LogEntry, type Touched, anyOf, gather, merged, mergedLog } from "../src/logic/changes.ts";

const change = (kind: string, key: string, what: string) => ({ kind, key, name: key, what });

test("the last change of an object decides whether it is read again or dropped", () => {
  const gathered = new Map<string, Touched>();
  gather(gathered, [
    change("instance", "a", "added"),
    change("instance", "b", "changed"),
    change("job", "7", "running"),
  ]);
  gather(gathered, [
    change("instance", "a", "removed"),
    change("job", "7", "archived"),
    change("instance", "c", "removed"),
  ]);
  gather(gathered, [change("instance", "c", "added")]);
  assert.deepEqual([...(gathered.get("instance")?.changed ?? [])], ["b", "c"]);
  assert.deepEqual([...(gathered.get("instance")?.removed ?? [])], ["a"]);
  assert.deepEqual([...(gathered.get("job")?.removed ?? [])], ["7"]);
});

test("a filter names each key once", () => {
  assert.deepEqual(anyOf("uuid", new Set(["a", "b"])), ["|", ["=", "uuid", "a"], ["=", "uuid", "b"]]);
  assert.deepEqual(anyOf("id", [7]), ["|", ["=", "id", 7]]);
});

test("an answer replaces, adds and removes rows, and leaves the others", () => {
  const rows = [
    { id: "a", n: 1 },
    { id: "b", n: 1 },
    { id: "c", n: 1 },
  ];
  const answer = [
    { id: "b", n: 2 },
    { id: "d", n: 2 },
  ];
  const result = merged(rows, (row) => row.id, new Set(["b", "c", "d"]), answer);
  assert.deepEqual(result, [
    { id: "a", n: 1 },
    { id: "b", n: 2 },
    { id: "d", n: 2 },
  ]);
  assert.equal(result[0], rows[0]);
});

test("a log has each entry once, in order, whichever way it came", () => {
  const entry = (serial: number): LogEntry => [serial, [serial, 0], "message", `step ${serial}`];
  const log = mergedLog([entry(1), entry(3)], [entry(2), entry(3), entry(4)]);
  assert.deepEqual(
    log.map(([serial]) => serial),
    [1, 2, 3, 4],
  );
});
