// Keys that work on every page, and the dialog that lists them.

import { sessionEnded } from "./api.ts";
import { href } from "./logic/routes.ts";
import { Dialog, closeDialog, openDialog } from "./parts/dialog.tsx";
import { go } from "./router.ts";
import { reloadAll } from "./store.ts";

const GOES: Readonly<Record<string, { place: string; title: string }>> = {
  o: { place: "", title: "Overview" },
  i: { place: "instances", title: "Instances" },
  n: { place: "nodes", title: "Nodes" },
  w: { place: "networks", title: "Networks" },
  s: { place: "segments", title: "Segment ranges" },
  b: { place: "backups", title: "Backups" },
  j: { place: "jobs", title: "Jobs" },
  a: { place: "audit", title: "Audit" },
  e: { place: "settings", title: "Settings" },
};
const SECOND_KEY_MILLISECONDS = 1_500;

let lastG = 0;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement) || !target.matches("input, select, textarea")) return false;
  return !(target instanceof HTMLInputElement && target.type === "checkbox");
}

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (sessionEnded.peek() || document.querySelector("dialog[open]")) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search")?.focus();
    } else if (event.key === "f") {
      const filter = document.querySelector<HTMLElement>("main input[type=search]");
      if (filter) event.preventDefault();
      filter?.focus();
    } else if (event.key === "r") {
      void reloadAll();
    } else if (event.key === "?") {
      event.preventDefault();
      showKeys();
    } else if (event.key === "g") {
      lastG = event.timeStamp;
    } else if (GOES[event.key] && event.timeStamp - lastG < SECOND_KEY_MILLISECONDS) {
      const { place } = GOES[event.key] as { place: string };
      lastG = 0;
      go(href(place ? [place] : []));
    }
  });
}

export function showKeys(): void {
  openDialog(
    <Dialog title="Keys">
      <table class="keys">
        <tbody>
          <Key keys={["/"]} what="Search instances, nodes, networks and addresses" />
          <Key keys={["r"]} what="Read again what nodes report, which has no events" />
          <Key keys={["f"]} what="Filter the list of the page" />
          {Object.entries(GOES).map(([key, { title }]) => (
            <Key key={key} keys={["g", key]} what={title} />
          ))}
          <Key keys={["↑", "↓"]} what="In a list: from row to row; Page Up, Page Down, Home and End, too" />
          <Key keys={["Space"]} what="On a box of a list: select; with Shift and a click: all between" />
          <Key keys={["Esc"]} what="Close a dialog or the search" />
          <Key keys={["?"]} what="This list" />
        </tbody>
      </table>
      <div class="buttons">
        <button type="button" class="primary" onClick={closeDialog}>
          Close
        </button>
      </div>
    </Dialog>,
  );
}

function Key({ keys, what }: { keys: readonly string[]; what: string }) {
  return (
    <tr>
      <th scope="row">
        {keys.map((key, i) => (
          <>
            {i > 0 && " "}
            <kbd>{key}</kbd>
          </>
        ))}
      </th>
      <td>{what}</td>
    </tr>
  );
}
