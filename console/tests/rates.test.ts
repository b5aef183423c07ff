import assert from "node:assert/strict";
import { test } from "node:test";
import { GAP_SECONDS, lines, merged, type Used } from "../src/logic/rates.ts";

function used(time: number, more: Partial<Used> = {}): Used {
  return { time, processor: 0, memory: 0, read: 0, written: 0, received: 0, sent: 0, ...more };
}

test("counters become rates, and the first value has none", () => {
  const drawn = lines([used(60, { processor: 10, read: 600 }), used(120, { processor: 100, read: 1200, memory: 7 })]);
  assert.deepEqual(drawn.times, [60, 120]);
  assert.deepEqual(drawn.processors, [null, 1.5]);
  assert.deepEqual(drawn.read, [null, 10]);
  assert.deepEqual(drawn.memory, [0, 7]);
});

test("a counter that begins again has a gap instead of a fall below zero", () => {
  assert.deepEqual(lines([used(0, { sent: 900 }), used(60, { sent: 3 }), used(120, { sent: 63 })]).sent, [
    null,
    null,
    1,
  ]);
});

test("time without values is a gap in all lines", () => {
  const drawn = lines([used(0), used(60), used(60 + GAP_SECONDS + 1), used(60 + GAP_SECONDS + 61)]);
  assert.deepEqual(drawn.times, [0, 60, 61, 60 + GAP_SECONDS + 1, 60 + GAP_SECONDS + 61]);
  assert.deepEqual(drawn.processors, [null, 0, null, null, 0]);
  assert.deepEqual(drawn.memory, [0, 0, null, 0, 0]);
});

test("two values of one moment are no rate", () => {
  assert.deepEqual(lines([used(60), used(60, { read: 5 })]).read, [null, null]);
});

test("newer values follow, each once, and a day is kept", () => {
  const known = [used(0), used(60)];
  assert.deepEqual(
    merged(known, [used(60), used(120)]).map((value) => value.time),
    [0, 60, 120],
  );
  assert.deepEqual(
    merged(known, [used(86_430)]).map((value) => value.time),
    [60, 86_430],
  );
  assert.deepEqual(merged([], []), []);
});
