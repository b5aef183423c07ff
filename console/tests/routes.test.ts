import assert from "node:assert/strict";
import { test } from "node:test";
import { NEW_INSTANCE, NEW_NETWORK, href, objectHref, parse, placeOf } from "../src/logic/routes.ts";

test("a route is parsed as it was written", () => {
  const name = "web/1 ?#<b>é</b>&%";
  const link = href(["instances", name], { q: "a b&c", sort: "" });
  const { parts, query } = parse(link);
  assert.deepEqual(parts, ["instances", name]);
  assert.deepEqual([...query], [["q", "a b&c"]]);
});

test("the empty address is the overview", () => {
  for (const hash of ["", "#", "#/"]) assert.deepEqual(parse(hash).parts, []);
  assert.equal(href([]), "#/");
});

test("an address with a broken escape is still a route", () => {
  assert.deepEqual(parse("#/instances/100%").parts, ["instances", "100%"]);
});

test("objects with a page have a link", () => {
  assert.equal(objectHref("job", "17"), "#/jobs/17");
  assert.equal(objectHref("group", "default"), "#/nodes?group=default");
  assert.equal(objectHref("cluster", "demo"), null);
});

test("a form for a new object belongs to the list of such objects, and its address is no object's", () => {
  assert.equal(placeOf(parse(href([NEW_INSTANCE], { network: "net1" }))), "instances");
  assert.equal(placeOf(parse(href([NEW_NETWORK]))), "networks");
  assert.equal(placeOf(parse("#/instances/new")), "instances");
  assert.equal(placeOf(parse("#/")), "");
});
