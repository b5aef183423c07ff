import { may } from "../api.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { type Node, nodeRole, nodeStatus } from "../model.ts";
import { useLists, useObject, useTitle } from "../parts/hooks.ts";
import { withLoaded } from "../parts/lazy.tsx";
import { EventList, JobList } from "../parts/past.tsx";
import { Parameters } from "../parts/parameters.tsx";
import { Ago, Badge, Fact, Facts, Failure, Loading, None } from "../parts/text.tsx";
import { Usage } from "../parts/usage.tsx";
import { instances, nodes } from "../store.ts";
import { InstanceList } from "./instances.tsx";
import { NodeDisk, NodeMemory } from "./nodes.tsx";

const FIELDS = [
  "uuid",
  "name",
  "sip",
  "master_capable",
  "sinst_list",
  "ndparams",
  "custom_ndparams",
  "accelerator",
  "accelerator_reason",
  "ctime",
  "mtime",
  "tags",
];

interface Details {
  readonly uuid: string;
  readonly name: string;
  readonly sip: string;
  readonly master_capable: boolean;
  readonly sinst_list: readonly string[];
  readonly ndparams: Readonly<Record<string, unknown>>;
  readonly custom_ndparams: Readonly<Record<string, unknown>>;
  readonly accelerator: string | null;
  readonly accelerator_reason: string | null;
  readonly ctime: number;
  readonly mtime: number;
  readonly tags: readonly string[];
}

export function NodePage({ name }: { name: string }) {
  useTitle(name);
  useLists(nodes, instances);
  const { value, failure } = useObject<Details>("node", FIELDS, name);
  const node = nodes.rows.value.find((row) => row.name === name);
  return (
    <>
      <header class="head">
        <p class="crumbs">
          <a href={href(["nodes"])}>Nodes</a> /
        </p>
        <h1>{name}</h1>
        {node && <Badge status={nodeStatus(node)} />}
        {node && may("administer") && <Actions node={node} />}
      </header>
      {failure && <Failure text={failure} />}
      {value === null && <p class="empty">There is no node named {name}.</p>}
      {value && node ? <Body node={node} details={value} /> : value !== null && !failure && <Loading what={name} />}
    </>
  );
}

const loadEdits = () => import("../nodeedits.tsx");

function Actions({ node }: { node: Node }) {
  const edit = (use: (edits: Awaited<ReturnType<typeof loadEdits>>) => void) => () => withLoaded(loadEdits, use);
  const isOffline = node.role === "O";
  const isDrained = node.role === "D";
  return (
    <div class="actions" role="group" aria-label="Actions">
      {!isOffline && (
        <button type="button" onClick={edit((edits) => edits.evacuate(node))}>
          Empty…
        </button>
      )}
      {node.role !== "M" && !isOffline && (
        <button type="button" onClick={edit((edits) => edits.setDrained(node.name, !isDrained))}>
          {isDrained ? "End the drain" : "Drain"}
        </button>
      )}
      {node.role !== "M" &&
        (isOffline ? (
          <button type="button" onClick={edit((edits) => edits.setOnline(node.name))}>
            Mark online
          </button>
        ) : (
          <button type="button" class="danger" onClick={edit((edits) => edits.markOffline(node))}>
            Mark offline…
          </button>
        ))}
    </div>
  );
}

function Body({ node, details }: { node: Node; details: Details }) {
  const here = instances.rows.value.filter((instance) => instance.pnode === node.name);
  return (
    <>
      <div class="columns">
        <section>
          <h2>State</h2>
          <Facts>
            <Fact name="Status">{nodeStatus(node).about}</Fact>
            <Fact name="Role">{nodeRole(node.role)}</Fact>
            <Fact name="Node group">
              <a href={href(["nodes"], { group: node.group })}>{node.group}</a>
            </Fact>
            <Fact name="Address">{node.pip}</Fact>
            {details.sip !== node.pip && <Fact name="Replication address">{details.sip}</Fact>}
            <Fact name="Accelerator">
              <span title={details.accelerator_reason ?? ""}>{details.accelerator ?? <None />}</span>
            </Fact>
            <Fact name="Certificate ends">
              <Ago time={node.certificate_end} />
            </Fact>
            <Fact name="Tags">
              {details.tags.length ? details.tags.map((tag) => <span class="tag">{tag}</span>) : <None />}
            </Fact>
            <Fact name="UUID">
              <code>{node.uuid}</code>
            </Fact>
          </Facts>
        </section>
        <section>
          <h2>Capacity</h2>
          <Facts>
            <Fact name="Memory in use">
              <NodeMemory node={node} />
            </Fact>
            <Fact name="Disk in use">
              <NodeDisk node={node} />
            </Fact>
            <Fact name="Processors">{node.ctotal === null ? <None /> : format.number(node.ctotal)}</Fact>
            <Fact name="Instances">
              {format.number(node.pinst_cnt)} primary, {format.number(node.sinst_cnt)} secondary
            </Fact>
            {node.stray_guests && node.stray_guests.length > 0 && (
              <Fact name="Stray guests">
                <span class="badge bad">{format.list(node.stray_guests)}</span>
              </Fact>
            )}
          </Facts>
        </section>
      </div>
      <section>
        <h2>Instances</h2>
        <InstanceList rows={here} caption={`Instances on ${node.name}`} without="node" />
        {details.sinst_list.length > 0 && (
          <p>
            Secondary node of{" "}
            {details.sinst_list.map((instance, i) => (
              <span key={instance}>
                {i > 0 && ", "}
                <a href={href(["instances", instance])}>{instance}</a>
              </span>
            ))}
          </p>
        )}
      </section>
      <Usage kind="node" name={node.name} />
      <div class="columns">
        <JobList title="Jobs" kind="node" name={node.name} />
        <EventList kind="node" uuid={node.uuid} />
      </div>
      <section>
        <h2>Parameters</h2>
        <Parameters title="Node" filled={details.ndparams} custom={details.custom_ndparams} />
      </section>
    </>
  );
}
