import assert from "node:assert/strict";
import { test } from "node:test";
import { pieceText, pieces } from "../src/logic/segments.ts";
import { differences } from "../src/logic/versions.ts";

test("what another person changed is named with the values before and after", () => {
  const before = { memory: 512, vcpus: 2, "nic.ips": [["192.0.2.7"], []], serial_no: 3 };
  const after = { memory: 1024, vcpus: 2, "nic.ips": [["192.0.2.7", "192.0.2.8"], []], serial_no: 4 };
  const names = { memory: "Memory", vcpus: "CPUs", "nic.ips": "Addresses" };
  assert.deepEqual(differences(before, after, names), [
    { name: "Memory", before: "512", after: "1024" },
    { name: "Addresses", before: "192.0.2.7, -", after: "192.0.2.7, 192.0.2.8, -" },
  ]);
  assert.deepEqual(differences(before, { ...before, serial_no: 9 }, names), []);
});

test("the ids of a segment range are runs of used and of free ids", () => {
  const segments = [
    { id: 105, network: "b" },
    { id: 100, network: "a" },
    { id: 106, network: "c" },
    { id: 200, network: "outside" },
  ];
  assert.deepEqual(pieces(100, 110, segments).map(pieceText), [
    "100: a",
    "101 to 104: free",
    "105 to 106: b, c",
    "107 to 110: free",
  ]);
  assert.deepEqual(pieces(1, 16_777_215, []).map(pieceText), ["1 to 16777215: free"]);
  assert.deepEqual(pieces(5, 5, [{ id: 5, network: "x" }]).map(pieceText), ["5: x"]);
});

test("a range with very many used ids is drawn with a limited number of pieces", () => {
  const segments = Array.from({ length: 5_000 }, (_, i) => ({ id: 2 * i + 2, network: `n${i}` }));
  assert.ok(pieces(1, 20_000, segments).length <= 401);
});
