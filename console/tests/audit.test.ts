import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL, DEFAULT_PERIOD, PERIODS, origin, since, valueWords } from "../src/logic/audit.ts";

test("a user comes from an address or from the master, the cluster from nowhere", () => {
  assert.equal(origin({ user: "alice", peer: "192.0.2.7" }), "192.0.2.7");
  assert.equal(origin({ user: "root", peer: "" }), "the master");
  assert.equal(origin({ user: "", peer: "" }), "");
});

test("values are words", () => {
  for (const nothing of [null, undefined, "", []]) assert.equal(valueWords(nothing), "–");
  assert.equal(valueWords(["a", "b"]), "a, b");
  assert.equal(valueWords(false), "false");
  assert.equal(valueWords(0), "0");
  assert.equal(valueWords([{ a: 1 }]), '[{"a":1}]');
});

test("a period ends now, and all has no begin", () => {
  assert.equal(since("3600", 10_000.5), "6400");
  assert.equal(since(ALL, 10_000), "");
  assert.equal(since("x", 10_000), "");
  assert.ok(PERIODS.some(([value]) => value === DEFAULT_PERIOD));
});
