import { migrate, remove, runPower, applies } from "../actions.tsx";
import { may } from "../api.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { instanceStatus, isRunning } from "../model.ts";
import { useLists, useObject, useTitle } from "../parts/hooks.ts";
import { HistoryPart } from "../parts/history.tsx";
import { withLoaded } from "../parts/lazy.tsx";
import { EventList, JobList } from "../parts/past.tsx";
import { Ago, Badge, Commas, Fact, Facts, Failure, Loading, None, Scrolling } from "../parts/text.tsx";
import { Parameters } from "../parts/parameters.tsx";
import { Usage } from "../parts/usage.tsx";
import { nodes } from "../store.ts";

const FIELDS = [
  "uuid",
  "name",
  "status",
  "admin_state",
  "pnode",
  "snodes",
  "pnode.group",
  "hypervisor",
  "os",
  "disk_template",
  "disk_usage",
  "disk.sizes",
  "disk.names",
  "disk.uuids",
  "nic.macs",
  "nic.ips",
  "nic.names",
  "nic.modes",
  "nic.links",
  "nic.vlans",
  "nic.networks.names",
  "beparams",
  "custom_beparams",
  "hvparams",
  "custom_hvparams",
  "osparams",
  "custom_osparams",
  "oper_ram",
  "oper_vcpus",
  "network_port",
  "ctime",
  "mtime",
  "tags",
  "project",
];

type Values = Readonly<Record<string, unknown>>;
type Texts = readonly (string | null)[];

interface Details {
  readonly uuid: string;
  readonly name: string;
  readonly status: string | null;
  readonly admin_state: string;
  readonly pnode: string;
  readonly snodes: readonly string[];
  readonly "pnode.group": string;
  readonly hypervisor: string;
  readonly os: string | null;
  readonly disk_template: string;
  readonly disk_usage: number | null;
  readonly "disk.sizes": readonly number[];
  readonly "disk.names": Texts;
  readonly "disk.uuids": readonly string[];
  readonly "nic.macs": Texts;
  readonly "nic.ips": readonly (readonly string[])[];
  readonly "nic.names": Texts;
  readonly "nic.modes": Texts;
  readonly "nic.links": Texts;
  readonly "nic.vlans": Texts;
  readonly "nic.networks.names": Texts;
  readonly beparams: Values;
  readonly custom_beparams: Values;
  readonly hvparams: Values;
  readonly custom_hvparams: Values;
  readonly osparams: Values;
  readonly custom_osparams: Values;
  readonly oper_ram: number | null;
  readonly oper_vcpus: number | null;
  readonly network_port: number | null;
  readonly ctime: number;
  readonly mtime: number;
  readonly tags: readonly string[];
  readonly project: string;
}

export function InstancePage({ name }: { name: string }) {
  useTitle(name);
  useLists(nodes);
  const { value, failure } = useObject<Details>("instance", FIELDS, name);
  return (
    <>
      <header class="head">
        <p class="crumbs">
          <a href={href(["instances"])}>Instances</a> /
        </p>
        <h1>{name}</h1>
        {value && <Badge status={instanceStatus(value.status)} />}
        {value && <Actions instance={value} />}
      </header>
      {failure && <Failure text={failure} />}
      {value === undefined && !failure && <Loading what={name} />}
      {value === null && <Missing name={name} />}
      {value && <Body instance={value} />}
    </>
  );
}

function Missing({ name }: { name: string }) {
  return (
    <>
      <p class="empty">There is no instance named {name}. It may have been removed or renamed.</p>
      <JobList title="Jobs that name it" kind="instance" name={name} />
    </>
  );
}

const loadEdits = () => import("../edits.tsx");

/** Open a dialog that changes something. */
function edit(use: (edits: Awaited<ReturnType<typeof loadEdits>>) => void): void {
  withLoaded(loadEdits, use);
}

const loadMoves = () => import("../moves.tsx");

function Actions({ instance }: { instance: Details }) {
  const { name } = instance;
  if (!may("operate", instance)) return null;
  return (
    <div class="actions" role="group" aria-label="Actions">
      <button type="button" disabled={!applies("start", instance)} onClick={() => runPower("start", name)}>
        Start
      </button>
      <button type="button" disabled={!applies("stop", instance)} onClick={() => runPower("stop", name)}>
        Stop
      </button>
      <button type="button" disabled={!applies("reboot", instance)} onClick={() => runPower("reboot", name)}>
        Reboot
      </button>
      <a class="button" href={href(["instances", name, "console"])}>
        Console
      </a>
      {may("manage", instance) && (
        <>
          <button type="button" disabled={!isRunning(instance.status)} onClick={() => migrate(instance)}>
            Migrate…
          </button>
          <button type="button" onClick={() => withLoaded(loadMoves, (moves) => moves.failOver(name))}>
            Fail over…
          </button>
        </>
      )}
      {may("administer") && (
        <button type="button" onClick={() => withLoaded(loadMoves, (moves) => moves.exportInstance(name))}>
          Export…
        </button>
      )}
      {may("manage", instance) && (
        <>
          <button type="button" onClick={() => edit((edits) => edits.rename(name))}>
            Rename…
          </button>
          <button type="button" class="danger" onClick={() => remove(name)}>
            Remove…
          </button>
        </>
      )}
    </div>
  );
}

function Body({ instance }: { instance: Details }) {
  return (
    <>
      <div class="columns">
        <section>
          <div class="section-head">
            <h2>State</h2>
            {may("manage", instance) && (
              <button type="button" class="quiet" onClick={() => edit((edits) => edits.editSize(instance.name))}>
                Change memory, CPUs, tags…
              </button>
            )}
          </div>
          <StateFacts instance={instance} />
        </section>
        <div>
          <section>
            <div class="section-head">
              <h2>NICs</h2>
              {may("manage", instance) && (
                <button type="button" class="quiet" onClick={() => edit((edits) => edits.addNic(instance.name))}>
                  Add a NIC…
                </button>
              )}
            </div>
            <Nics instance={instance} />
          </section>
          <section>
            <h2>Disks</h2>
            <Disks instance={instance} />
          </section>
        </div>
      </div>
      <div class="columns">
        <JobList title="Jobs" kind="instance" name={instance.name} />
        <EventList kind="instance" uuid={instance.uuid} />
      </div>
      <Usage kind="instance" name={instance.name} />
      <HistoryPart kind="instance" name={instance.uuid} />
      <section>
        <h2>Parameters</h2>
        <Parameters title="Backend" filled={instance.beparams} custom={instance.custom_beparams} />
        <Parameters
          title={`Hypervisor ${instance.hypervisor}`}
          filled={instance.hvparams}
          custom={instance.custom_hvparams}
        />
        <Parameters title="Operating system" filled={instance.osparams} custom={instance.custom_osparams} />
      </section>
    </>
  );
}

function StateFacts({ instance }: { instance: Details }) {
  const { beparams } = instance;
  const memory = Number(beparams["maxmem"] ?? 0);
  return (
    <Facts>
      <Fact name="Status">{instanceStatus(instance.status).about}</Fact>
      <Fact name="Admin state">{instance.admin_state}</Fact>
      <Fact name="Primary node">
        <a href={href(["nodes", instance.pnode])}>{instance.pnode}</a>
      </Fact>
      {instance.snodes.length > 0 && (
        <Fact name="Secondary node">
          <Commas>
            {instance.snodes.map((node) => (
              <a href={href(["nodes", node])}>{node}</a>
            ))}
          </Commas>
        </Fact>
      )}
      <Fact name="Node group">{instance["pnode.group"]}</Fact>
      <Fact name="Memory">
        {format.size(memory)}
        {instance.oper_ram !== null && instance.oper_ram !== memory && ` (now ${format.size(instance.oper_ram)})`}
      </Fact>
      <Fact name="CPUs">{format.value(beparams["vcpus"])}</Fact>
      <Fact name="Operating system">{instance.os || <None>not installed</None>}</Fact>
      <Fact name="Hypervisor">{instance.hypervisor}</Fact>
      <Fact name="Disk template">{instance.disk_template}</Fact>
      <Fact name="Created">
        <Ago time={instance.ctime} />
      </Fact>
      <Fact name="Last changed">
        <Ago time={instance.mtime} />
      </Fact>
      <Fact name="Tags">
        {instance.tags.length ? instance.tags.map((tag) => <span class="tag">{tag}</span>) : <None />}
      </Fact>
      {instance.project && <Fact name="Project">{instance.project}</Fact>}
      <Fact name="UUID">
        <code>{instance.uuid}</code>
      </Fact>
    </Facts>
  );
}

function Nics({ instance }: { instance: Details }) {
  const macs = instance["nic.macs"];
  if (!macs.length) return <p class="empty">No NICs.</p>;
  return (
    <Scrolling label="NICs">
      <table>
        <thead>
          <tr>
            <th scope="col">NIC</th>
            <th scope="col">Addresses</th>
            <th scope="col">Network</th>
            <th scope="col">MAC</th>
            <th scope="col">Connected to</th>
            {may("manage", instance) && <th scope="col">Actions</th>}
          </tr>
        </thead>
        <tbody>
          {macs.map((mac, i) => {
            const network = instance["nic.networks.names"][i];
            const vlan = instance["nic.vlans"][i];
            return (
              <tr key={mac}>
                <td>
                  {i} {instance["nic.names"][i]}
                </td>
                <td class="wraps">
                  <Addresses ips={instance["nic.ips"][i] ?? []} network={network ?? ""} />
                </td>
                <td>{network ? <a href={href(["networks", network])}>{network}</a> : <None />}</td>
                <td>
                  <code>{mac}</code>
                </td>
                <td>
                  {instance["nic.modes"][i]} {instance["nic.links"][i]}
                  {vlan ? `, VLAN ${vlan}` : ""}
                </td>
                {may("manage", instance) && (
                  <td>
                    <button
                      type="button"
                      class="quiet"
                      aria-label={`Change NIC ${i}`}
                      onClick={() => edit((edits) => edits.changeNic(instance.name, i))}
                    >
                      change
                    </button>{" "}
                    <button
                      type="button"
                      class="quiet"
                      aria-label={`Remove NIC ${i}`}
                      onClick={() => edit((edits) => edits.removeNic(instance.name, i))}
                    >
                      remove
                    </button>
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scrolling>
  );
}

function Addresses({ ips, network }: { ips: readonly string[]; network: string }) {
  if (!ips.length) return <None />;
  const links = ips.map((ip) => {
    const target = network ? href(["networks", network], { address: ip }) : href(["addresses"], { of: ip });
    return <a href={target}>{ip}</a>;
  });
  return <Commas>{links}</Commas>;
}

function Disks({ instance }: { instance: Details }) {
  const sizes = instance["disk.sizes"];
  if (!sizes.length) return <p class="empty">No disks ({instance.disk_template}).</p>;
  return (
    <Scrolling label="Disks">
      <table>
        <thead>
          <tr>
            <th scope="col">Disk</th>
            <th scope="col" class="number">
              Size
            </th>
            <th scope="col">Template</th>
            <th scope="col">UUID</th>
            {may("manage", instance) && <th scope="col">Actions</th>}
          </tr>
        </thead>
        <tbody>
          {sizes.map((size, i) => (
            <tr key={instance["disk.uuids"][i]}>
              <td>
                {i} {instance["disk.names"][i]}
              </td>
              <td class="number">{format.size(size)}</td>
              <td>{instance.disk_template}</td>
              <td>
                <code>{instance["disk.uuids"][i]}</code>
              </td>
              {may("manage", instance) && (
                <td>
                  <button
                    type="button"
                    class="quiet"
                    aria-label={`Grow disk ${i}`}
                    onClick={() => edit((edits) => edits.growDisk(instance.name, i))}
                  >
                    grow
                  </button>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolling>
  );
}
