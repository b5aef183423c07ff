// What can be done to instances, with the question that is asked before.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { Confirmation, Dialog, closeDialog, openDialog } from "./parts/dialog.tsx";
import { notify, submit, submitOne } from "./parts/notices.tsx";
import { number, plural } from "./logic/format.ts";
import { href } from "./logic/routes.ts";
import { type Instance, byName, isRunning } from "./model.ts";
import { go } from "./router.ts";
import { nodes } from "./store.ts";

export type Power = "start" | "stop" | "reboot";

const POWER: Readonly<Record<Power, { method: "PUT" | "POST"; path: string; verb: string; about: string }>> = {
  start: { method: "PUT", path: "startup", verb: "Start", about: "" },
  stop: {
    method: "PUT",
    path: "shutdown",
    verb: "Stop",
    about: "The guest is asked to shut down; if it does not within two minutes, it is switched off.",
  },
  reboot: { method: "POST", path: "reboot", verb: "Reboot", about: "The guest is restarted." },
};

const AT_ONCE = 4; // requests of a bulk action at a time

function path(name: string, action = ""): string {
  return `/2/instances/${encodeURIComponent(name)}${action && `/${action}`}`;
}

/** Whether an action makes sense for an instance in its present status. */
export function applies(power: Power, instance: { readonly status: string | null }): boolean {
  if (instance.status === "ADMIN_offline") return false;
  return power === "start" ? !isRunning(instance.status) : isRunning(instance.status);
}

export function runPower(power: Power, name: string): void {
  const { method, path: action, verb, about } = POWER[power];
  const run = () => void submitOne(`${verb} ${name}`, method, path(name, action));
  if (power === "start") return run();
  openDialog(
    <Confirmation title={`${verb} ${name}?`} action={verb} isDangerous={power === "stop"} onConfirm={run}>
      <p>{about}</p>
    </Confirmation>,
  );
}

const MOST_NAMES = 500; // in the question before a bulk action

/** Ask before an action on many instances, with the list of what it changes and what it leaves out. */
export function runPowerForAll(power: Power, chosen: readonly Instance[], onDone: () => void): void {
  const { verb, about } = POWER[power];
  const affected = byName(chosen.filter((instance) => applies(power, instance)));
  const others = chosen.length - affected.length;
  const reason = power === "start" ? "they already run or are marked offline" : "they do not run";
  const unchanged = `Unchanged: ${plural(others, "selected instance")}, because ${reason}.`;
  if (!affected.length) return notify("bad", unchanged);
  openDialog(
    <Confirmation
      title={`${verb} ${plural(affected.length, "instance")}?`}
      action={`${verb} ${number(affected.length)}`}
      isDangerous={power === "stop"}
      onConfirm={() => void submitAll(power, affected, onDone)}
    >
      {about && <p>{about}</p>}
      <ul class="names" tabIndex={0} aria-label="The instances">
        {affected.slice(0, MOST_NAMES).map((instance) => (
          <li key={instance.uuid}>
            {instance.name} <span class="none">on {instance.pnode}</span>
          </li>
        ))}
        {affected.length > MOST_NAMES && <li>and {number(affected.length - MOST_NAMES)} more</li>}
      </ul>
      {others > 0 && <p>{unchanged}</p>}
    </Confirmation>,
  );
}

/** How far a bulk action is, for the page that began it. */
export const bulk = signal<{ text: string; done: number; count: number } | null>(null);

async function submitAll(power: Power, affected: readonly Instance[], onDone: () => void): Promise<void> {
  const { method, path: action, verb } = POWER[power];
  const queue = [...affected];
  let failed = 0;
  let done = 0;
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      if ((await submit(method, path(next.name, action))) === null) failed += 1;
      done += 1;
      bulk.value = { text: `${verb}: jobs are submitted`, done, count: affected.length };
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  bulk.value = null;
  const submitted = affected.length - failed;
  if (submitted)
    notify(
      "good",
      <>
        {verb}: {plural(submitted, "job")} submitted. <a href={href(["jobs"])}>All jobs</a>
      </>,
    );
  onDone();
}

export function remove(name: string): void {
  openDialog(
    <Confirmation
      title={`Remove ${name}?`}
      action="Remove the instance"
      isDangerous
      typed={name}
      onConfirm={() => {
        void submitOne(`Remove ${name}`, "DELETE", path(name));
        go(href(["instances"]));
      }}
    >
      <p>The instance and its disks are removed, and its addresses are released. This cannot be undone.</p>
    </Confirmation>,
  );
}

/** The disk templates with a second node that a migration goes to. */
const MIRRORED: ReadonlySet<string> = new Set(["drbd"]);

interface Migrated {
  readonly name: string;
  readonly pnode: string;
  readonly snodes: readonly string[];
  readonly disk_template: string;
}

export function migrate(instance: Migrated): void {
  openDialog(<Migration instance={instance} />);
}

function Migration({ instance }: { instance: Migrated }) {
  const isMirrored = MIRRORED.has(instance.disk_template);
  const targets = byName(nodes.rows.value).filter(
    (node) => node.name !== instance.pnode && node.vm_capable && node.role !== "O",
  );
  const [target, setTarget] = useState(isMirrored ? (instance.snodes[0] ?? "") : (targets[0]?.name ?? ""));
  const run = (event: Event) => {
    event.preventDefault();
    closeDialog();
    const body = isMirrored ? {} : { target_node: target };
    void submitOne(`Migrate ${instance.name} to ${target}`, "PUT", path(instance.name, "migrate"), body);
  };
  return (
    <Dialog title={`Migrate ${instance.name}`}>
      <form onSubmit={run}>
        <p>The instance moves from {instance.pnode} to another node without being stopped.</p>
        {isMirrored ? (
          <p>
            It moves to <strong>{target}</strong>, which has a copy of its disks.
          </p>
        ) : (
          <label class="field">
            <span>Target node</span>
            <select value={target} onChange={(event) => setTarget(event.currentTarget.value)}>
              {targets.map((node) => (
                <option key={node.uuid}>{node.name}</option>
              ))}
            </select>
          </label>
        )}
        <div class="buttons">
          <button type="button" onClick={closeDialog}>
            Keep it on {instance.pnode}
          </button>
          <button type="submit" class="primary" disabled={!target}>
            Migrate
          </button>
        </div>
      </form>
    </Dialog>
  );
}
