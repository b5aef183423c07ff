import assert from "node:assert/strict";
import test from "node:test";

/** A window whose address somebody may change before the page hears of it, as in a browser that is busy. */
const page = new EventTarget();
const address = { hash: "#/instances?q=web" };
Object.assign(globalThis, {
  location: address,
  history: {
    replaceState(_state: unknown, _unused: string, target: string) {
      address.hash = target;
    },
  },
  addEventListener: page.addEventListener.bind(page),
});

const { replaceQuery, route } = await import("../src/router.ts");

function hears(): void {
  page.dispatchEvent(new Event("hashchange"));
}

test("a change of the query is in the address and on the page at once", () => {
  replaceQuery({ q: "db", sort: "-memory" });
  assert.equal(address.hash, "#/instances?q=db&sort=-memory");
  assert.equal(route.value.query.get("q"), "db");
});

test("a link that was followed counts, also when a filter settles before the page hears of it", () => {
  address.hash = "#/new-instance";
  replaceQuery({ q: "mail" });
  assert.equal(address.hash, "#/new-instance");
  hears();
  assert.deepEqual(route.value.parts, ["new-instance"]);
  assert.equal(route.value.query.size, 0);
});

test("the page that a link leads to changes its own query", () => {
  replaceQuery({ network: "blue" });
  assert.equal(address.hash, "#/new-instance?network=blue");
});
