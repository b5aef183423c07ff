import assert from "node:assert/strict";
import { test } from "node:test";
import { missing, parseReport, pieces } from "../src/logic/consoles.ts";

const kvm = {
  name: "web1",
  hypervisor: "kvm",
  hvparams: { serial_console: true, vnc_bind_address: "", spice_bind: "" },
};

test("an instance of kvm has the consoles of its parameters", () => {
  assert.equal(missing(kvm, "serial"), "");
  assert.match(missing(kvm, "vnc"), /no VNC server.*vnc_bind_address/);
  const screen = { ...kvm, hvparams: { serial_console: false, vnc_bind_address: "127.0.0.1" } };
  assert.equal(missing(screen, "vnc"), "");
  assert.match(missing(screen, "serial"), /no serial console.*serial_console/);
});

test("a SPICE server is named, and a hypervisor whose consoles need a terminal", () => {
  assert.match(missing({ ...kvm, hvparams: { spice_bind: "127.0.0.1" } }, "vnc"), /SPICE/);
  assert.match(missing({ ...kvm, hypervisor: "xen-pvm" }, "serial"), /gnt-instance console web1/);
});

test("a message of the server is one of four, and anything else is none", () => {
  assert.deepEqual(parseReport('{"state":"open","node":"node1"}'), { state: "open", node: "node1" });
  assert.deepEqual(parseReport('{"state":"used","user":"bob"}'), { state: "used", user: "bob" });
  assert.deepEqual(parseReport('{"state":"ended","text":"t","why":"idle"}'), {
    state: "ended",
    text: "t",
    why: "idle",
  });
  assert.deepEqual(parseReport('{"state":"refused","text":7}'), { state: "refused", text: "" });
  for (const text of ["", "null", "7", "{}", '{"state":"x"}', "{"]) assert.equal(parseReport(text), null);
});

test("a long text is parted, and nothing of it is lost", () => {
  const data = Uint8Array.from({ length: 40_000 }, (_, i) => i % 251);
  const parts = pieces(data);
  assert.deepEqual(
    parts.map((part) => part.length),
    [16_384, 16_384, 7_232],
  );
  assert.deepEqual(new Uint8Array(parts.flatMap((part) => [...part])), data);
  assert.deepEqual(pieces(new Uint8Array()), []);
});
