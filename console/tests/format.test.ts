import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../src/logic/format.ts";

test("sizes have the largest unit in which they are at least one", () => {
  assert.equal(format.size(0), "0 MiB");
  assert.equal(format.size(1023), "1,023 MiB");
  assert.equal(format.bytes(1023), "1,023 B");
  assert.equal(format.bytes(1536), "1.5 KiB");
  assert.equal(format.size(1024), "1 GiB");
  assert.equal(format.size(1536), "1.5 GiB");
  assert.equal(format.size(3 * 1024 ** 2), "3 TiB");
  assert.equal(format.size(1024 ** 4), "1,024 PiB");
});

test("plurals follow the number", () => {
  assert.equal(format.plural(0, "instance"), "0 instances");
  assert.equal(format.plural(1, "instance"), "1 instance");
  assert.equal(format.plural(50_000, "instance"), "50,000 instances");
  assert.equal(format.plural(2, "entry", "entries"), "2 entries");
});

test("times of the API are numbers or pairs of seconds and microseconds", () => {
  assert.equal(format.seconds(12.5), 12.5);
  assert.equal(format.seconds([12, 500_000]), 12.5);
  assert.equal(format.seconds(null), null);
  assert.equal(format.seconds([]), null);
});

test("distances in time are rounded towards now", () => {
  assert.equal(format.ago(1000, 1003), "just now");
  assert.equal(format.ago(1000, 1059), "59 seconds ago");
  assert.equal(format.ago(1000, 1119), "1 minute ago");
  assert.equal(format.ago(1000, 1000 + 26 * 3600), "1 day ago");
  assert.equal(format.ago(1000 + 2 * 3600, 1000), "in 2 hours");
});

test("durations have at most two units", () => {
  assert.equal(format.duration(0.44), "0.4 s");
  assert.equal(format.duration(59.2), "59 s");
  assert.equal(format.duration(200), "3 min 20 s");
  assert.equal(format.duration(7500), "2 h 5 min");
  assert.equal(format.duration(3 * 86_400 + 7200), "3 d 2 h");
  assert.equal(format.duration(-1), "0 s");
});

test("values of parameters are text", () => {
  assert.equal(format.value(false), "no");
  assert.equal(format.value(null), "-");
  assert.equal(format.value(["a", 1]), '["a",1]');
});
