import assert from "node:assert/strict";
import { test } from "node:test";
import { Usage, blocks, formatAddress, parseAddress, parseRange, rangeSize } from "../src/logic/addresses.ts";

function range(text: string) {
  const parsed = parseRange(text);
  assert.ok(parsed, text);
  return parsed;
}

test("addresses are written as RFC 5952 says", () => {
  for (const text of ["0.0.0.0", "192.0.2.255", "::", "::1", "2001:db8::1:0:0:1", "2001:db8:0:1:1:1:1:1", "fe80::"]) {
    const parsed = parseAddress(text);
    assert.ok(parsed, text);
    assert.equal(formatAddress(parsed.family, parsed.value), text);
  }
  const long = parseAddress("2001:0DB8:0000:0000:0000:0000:0000:0001");
  assert.equal(formatAddress(6, long?.value ?? 0n), "2001:db8::1");
});

test("texts that are not addresses are refused", () => {
  for (const text of ["", "256.0.0.1", "1.2.3", "web1", ":", ":::", "1::2::3", "1:2:3:4:5:6:7:8:9", "12345::", "::g"]) {
    assert.equal(parseAddress(text), null, text);
  }
});

test("ranges and CIDRs have a first and a last address", () => {
  assert.equal(rangeSize(range("192.0.2.10-192.0.2.59")), 50n);
  assert.equal(rangeSize(range("192.0.2.77/24")), 256n);
  assert.equal(rangeSize(range("2001:db8::/64")), 2n ** 64n);
  assert.equal(parseRange("192.0.2.9-192.0.2.1"), null);
  assert.equal(parseRange("192.0.2.0/33"), null);
});

test("the map of a pool knows what each address is", () => {
  const usage = new Usage(range("192.0.2.0/24"), [range("192.0.2.12-192.0.2.13")]);
  usage.add("192.0.2.1", "gateway", "");
  usage.add("192.0.2.10", "used", "web1");
  usage.add("192.0.2.12", "used", "web2");
  const at = (text: string) => usage.at(parseAddress(text)?.value ?? 0n);
  assert.deepEqual(at("192.0.2.10"), { state: "used", owner: "web1" });
  assert.equal(at("192.0.2.13").state, "external");
  assert.equal(at("192.0.2.0").state, "end");
  assert.equal(at("192.0.2.14").state, "free");
  assert.equal(usage.taken(range("192.0.2.10-192.0.2.19")), 3n);
  assert.equal(usage.taken(range("192.0.2.11")), 0n);
});

test("blocks cover the range without a gap, at round addresses", () => {
  for (const text of ["10.10.0.10-10.10.255.250", "2001:db8::100-2001:db8::ffff", "2001:db8::/64"]) {
    const whole = range(text);
    const parts = blocks(whole, 256, 256);
    assert.ok(parts.length <= 257);
    assert.equal(parts[0]?.first, whole.first);
    assert.equal(parts.at(-1)?.last, whole.last);
    parts.slice(1).forEach((part, i) => {
      assert.equal(part.first, (parts[i]?.last ?? 0n) + 1n);
      assert.equal(part.first % 256n, 0n);
    });
  }
});
