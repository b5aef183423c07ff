// What administrators do with a node: take it out of use and back, and move what is on it to other nodes.

import { useState } from "preact/hooks";
import { explanation } from "./api.ts";
import { plural } from "./logic/format.ts";
import { href } from "./logic/routes.ts";
import { type Node, byName } from "./model.ts";
import { plan } from "./outcome.ts";
import { ChangeDialog } from "./parts/change.tsx";
import { openDialog } from "./parts/dialog.tsx";
import { CheckField, SelectField } from "./parts/form.tsx";
import { useLists } from "./parts/hooks.ts";
import { notify, submitOne } from "./parts/notices.tsx";
import { Failure } from "./parts/text.tsx";
import { nodes } from "./store.ts";

function nodePath(name: string, action: string): string {
  return `/2/nodes/${encodeURIComponent(name)}/${action}`;
}

/** Keep new instances off a node, or let them on it again; what is on the node stays. */
export function setDrained(name: string, drained: boolean): void {
  const what = drained ? `Drain ${name}` : `End the drain of ${name}`;
  void submitOne(what, "POST", nodePath(name, "modify"), { drained });
}

export function setOnline(name: string): void {
  void submitOne(`Mark ${name} online`, "POST", nodePath(name, "modify"), { offline: false });
}

export function markOffline(node: Node): void {
  openDialog(<Offline node={node} />);
}

function Offline({ node }: { node: Node }) {
  return (
    <ChangeDialog
      title={`Mark ${node.name} offline`}
      action="Mark it offline"
      keep="Keep it online"
      isDangerous
      run={async (send) => {
        await send("POST", nodePath(node.name, "modify"), { offline: true });
      }}
    >
      <p>
        The master does not contact an offline node any more. Use it for a node that is switched off or broken: guests
        that still run there continue, and nobody watches them.
      </p>
      {node.pinst_cnt > 0 && (
        <p>
          {plural(node.pinst_cnt, "instance")} stay with the node as their primary node. Move them away first, or fail
          them over afterwards.
        </p>
      )}
    </ChangeDialog>
  );
}

export function evacuate(node: Node): void {
  openDialog(<Evacuation node={node} />);
}

const MODES = [
  { value: "primary-only", text: "instances whose primary node it is" },
  { value: "secondary-only", text: "copies of the disks of other instances" },
  { value: "all", text: "both" },
];

interface Evacuated {
  readonly jobs: readonly unknown[];
  readonly stay: Readonly<Record<string, string>>;
}

function Evacuation({ node }: { node: Node }) {
  useLists(nodes);
  const [mode, setMode] = useState(node.sinst_cnt > 0 ? "all" : "primary-only");
  const [target, setTarget] = useState("");
  const [isDrained, setDrainedFirst] = useState(true);
  const [planned, setPlanned] = useState<{ mode: string; target: string; lines: readonly string[] } | null>(null);
  const [failure, setFailure] = useState("");
  const targets = byName(nodes.rows.value).filter(
    (other) => other.name !== node.name && other.vm_capable && other.role !== "O",
  );
  const path = nodePath(node.name, "evacuate");
  const body = target ? { mode, remote_node: target } : { mode };
  const show = () => {
    setFailure("");
    plan("POST", path, body).then(
      (lines) => setPlanned({ mode, target, lines }),
      (error: unknown) => setFailure(explanation(error)),
    );
  };
  // A plan may arrive after another choice was made, which it is not about.
  const isCurrent = planned?.mode === mode && planned.target === target;
  return (
    <ChangeDialog
      title={`Empty ${node.name}`}
      action="Move them"
      keep={`Keep them on ${node.name}`}
      run={async (send) => {
        if (isDrained && node.role !== "D") await send("POST", nodePath(node.name, "modify"), { drained: true });
        report(node.name, (await send("POST", path, body)) as Evacuated);
      }}
    >
      <p>
        Each instance gets a job of its own. Running guests migrate where their disks allow it; others are stopped and
        started elsewhere.
      </p>
      <SelectField label="What moves" value={mode} onValue={setMode} options={MODES} />
      <SelectField
        label="Target node"
        value={target}
        onValue={setTarget}
        options={[
          { value: "", text: "automatic: the allocator chooses" },
          ...targets.map(({ name }) => ({ value: name, text: name })),
        ]}
      />
      {node.role !== "D" && (
        <CheckField
          label="Drain it first, so that it gets no new instances"
          isChecked={isDrained}
          onCheck={setDrainedFirst}
        />
      )}
      <button type="button" onClick={show}>
        Show the plan
      </button>
      {failure && <Failure text={failure} />}
      <section class="plan" aria-live="polite">
        {isCurrent && (
          <ol aria-label="The plan">
            {planned.lines.map((line, i) => (
              <li key={i}>{line}</li>
            ))}
          </ol>
        )}
      </section>
    </ChangeDialog>
  );
}

/** Say how many jobs move something, and what stays for which reason. */
function report(name: string, { jobs, stay }: Evacuated): void {
  const left = Object.entries(stay);
  if (jobs.length)
    notify(
      "good",
      <>
        Empty {name}: {plural(jobs.length, "job")} submitted. <a href={href(["jobs"])}>All jobs</a>
      </>,
    );
  if (left.length)
    notify(
      "bad",
      <>
        {plural(left.length, "instance")} of {name} cannot move:
        <ul>
          {left.map(([instance, reason]) => (
            <li key={instance}>
              {instance}: {reason}
            </li>
          ))}
        </ul>
      </>,
    );
  if (!jobs.length && !left.length) notify("good", `There is nothing to move on ${name}.`);
}
