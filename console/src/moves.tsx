// What takes an instance, or a copy of it, to another node: failover and export. Migration is in actions.tsx.

import { useEffect, useState } from "preact/hooks";
import { byName } from "./model.ts";
import { ChangeDialog } from "./parts/change.tsx";
import { Meanwhile, type PartProps, instancePath, openEditor } from "./parts/editor.tsx";
import { CheckField, SelectField } from "./parts/form.tsx";
import { useLists } from "./parts/hooks.ts";
import { nodes } from "./store.ts";

/** The templates whose disks every node reaches, or that have none. */
const ANYWHERE: ReadonlySet<string> = new Set(["sharedfile", "ext", "blockdev", "diskless"]);

export function failOver(name: string): void {
  openEditor(`Fail over ${name}`, name, (opened, present) => <Failover opened={opened} present={present} />);
}

function Failover({ opened, present }: PartProps) {
  useLists(nodes);
  const [target, setTarget] = useState("");
  const usable = byName(nodes.rows.value).filter(
    (node) => node.name !== present.pnode && node.vm_capable && node.role !== "O",
  );
  const usual = present.snodes[0] ?? "";
  const automatic = usual ? `${usual}: it has a copy of the disks` : "automatic: the allocator chooses";
  return (
    <ChangeDialog
      warning={<Meanwhile opened={opened} present={present} />}
      title={`Fail over ${opened.name}`}
      action="Fail over"
      keep={`Keep it on ${present.pnode}`}
      isDangerous
      isLong
      run={async (send) => {
        const body = target ? { target_node: target } : {};
        await send("PUT", instancePath(present.name, "failover"), body, present.serial_no);
      }}
    >
      <p>
        The guest is stopped on {present.pnode} and started on another node. Use it if {present.pnode} does not answer,
        or if the instance cannot migrate.
      </p>
      {!usual && !ANYWHERE.has(present.disk_template) && (
        <p>
          Its disks ({present.disk_template}) are on {present.pnode} alone: the server will probably refuse.
        </p>
      )}
      <SelectField
        label="Target node"
        value={target}
        onValue={setTarget}
        options={[
          { value: "", text: automatic },
          ...usable.filter(({ name }) => name !== usual).map(({ name }) => ({ value: name, text: name })),
        ]}
      />
    </ChangeDialog>
  );
}

export function exportInstance(name: string): void {
  openEditor(`Export ${name}`, name, (opened, present) => <Export opened={opened} present={present} />);
}

function Export({ opened, present }: PartProps) {
  useLists(nodes);
  const usable = byName(nodes.rows.value).filter((node) => node.role !== "O");
  const [target, setTarget] = useState("");
  const [isStopped, setStopped] = useState(true);
  const first = usable[0]?.name ?? "";
  useEffect(() => {
    if (!target && first) setTarget(first);
  }, [first]);
  return (
    <ChangeDialog
      warning={<Meanwhile opened={opened} present={present} />}
      title={`Export ${opened.name}`}
      action="Export"
      isReady={target !== ""}
      isLong
      run={async (send) => {
        const body = { destination: target, shutdown: isStopped };
        await send("PUT", instancePath(present.name, "export"), body);
      }}
    >
      <p>The disks and the parameters are copied to an export on a node, from which the instance can be made again.</p>
      <SelectField
        label="Node that keeps the export"
        value={target}
        onValue={setTarget}
        options={usable.map((node) => ({ value: node.name, text: node.name }))}
      />
      <CheckField
        label="Stop the guest meanwhile, so that its files are complete"
        isChecked={isStopped}
        onCheck={setStopped}
      />
    </ChangeDialog>
  );
}
