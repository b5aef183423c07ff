// Segment ranges: from which ids networks get theirs, which are in use, and by whom.

import { useState } from "preact/hooks";
import { may, query } from "../api.ts";
import * as format from "../logic/format.ts";
import { href } from "../logic/routes.ts";
import { naturalKey, sorted } from "../logic/rows.ts";
import { type Segment, pieceText, pieces } from "../logic/segments.ts";
import { parseCount } from "../logic/sizes.ts";
import { ChangeDialog } from "../parts/change.tsx";
import { openDialog } from "../parts/dialog.tsx";
import { CheckField, SelectField, TextField } from "../parts/form.tsx";
import { useReading, useTitle } from "../parts/hooks.ts";
import { Commas, Fact, Facts, Failure, Loading, Meter, None } from "../parts/text.tsx";

interface SegmentRange {
  readonly uuid: string;
  readonly name: string;
  readonly network_type: string;
  readonly physical_network: string;
  readonly minimum: number;
  readonly maximum: number;
  readonly shared: boolean;
  readonly project: string;
  readonly default: boolean;
  readonly managed: boolean;
  readonly description: string;
  readonly used_count: number;
  readonly available_count: number;
}

interface SegmentedNetwork {
  readonly name: string;
  readonly network_type: string | null;
  readonly physical_network: string | null;
  readonly segment: number | null;
}

const FIELDS = [
  "uuid",
  "name",
  "network_type",
  "physical_network",
  "minimum",
  "maximum",
  "shared",
  "project",
  "default",
  "managed",
  "description",
  "used_count",
  "available_count",
];

async function read(): Promise<{ ranges: readonly SegmentRange[]; networks: readonly SegmentedNetwork[] }> {
  const [ranges, networks] = await Promise.all([
    query<SegmentRange>("segmentrange", FIELDS),
    query<SegmentedNetwork>("network", ["name", "network_type", "physical_network", "segment"]),
  ]);
  const key = (range: SegmentRange) =>
    naturalKey(`${range.network_type} ${range.physical_network} ${String(range.minimum)}`);
  return { ranges: sorted(ranges, key, "ascending"), networks };
}

export function SegmentsPage() {
  useTitle("Segment ranges");
  const { value, failure } = useReading(
    read,
    [],
    [
      ["segmentrange", ""],
      ["network", ""],
    ],
  );
  return (
    <>
      <header class="head">
        <h1>Segment ranges</h1>
        <p class="about" role="status">
          {value && format.plural(value.ranges.length, "range")}
        </p>
        {value && may("wire") && (
          <div class="actions" role="group" aria-label="Actions">
            <button type="button" class="primary" onClick={() => openDialog(<RangeForm />)}>
              New range…
            </button>
          </div>
        )}
      </header>
      {failure && <Failure text={failure} />}
      {!value && !failure && <Loading what="segment ranges" />}
      {value?.ranges.some((range) => !range.managed) && (
        <p class="about">
          This cluster uses the default ranges alone. To allow others: gnt-cluster modify --segment-ranges yes
        </p>
      )}
      {value?.ranges.length === 0 && (
        <p class="empty">There are no segment ranges. A network with a segment needs an id that somebody typed.</p>
      )}
      {value?.ranges.map((range) => (
        <RangePart key={range.uuid} range={range} networks={value.networks} />
      ))}
    </>
  );
}

function label(range: SegmentRange): string {
  return range.name || `${range.network_type} ${range.minimum} to ${range.maximum}`;
}

function RangePart({ range, networks }: { range: SegmentRange; networks: readonly SegmentedNetwork[] }) {
  const segments = networks
    .filter((each) => each.network_type === range.network_type)
    .filter((each) => (each.physical_network ?? "") === range.physical_network)
    .flatMap((each) => (each.segment === null ? [] : [{ id: each.segment, network: each.name }]));
  const size = range.maximum - range.minimum + 1;
  return (
    <section class="subnet">
      <div class="pool-head">
        <h2>
          {label(range)}{" "}
          {range.name && (
            <span class="none">
              {range.network_type} {range.minimum} to {range.maximum}
            </span>
          )}
        </h2>
        <Meter
          part={range.used_count}
          total={size}
          label={`${format.number(range.used_count)} of ${format.number(size)} in use`}
        />
        {may("wire") && !range.default && (
          <div class="actions" role="group" aria-label={label(range)}>
            <button type="button" onClick={() => openDialog(<RangeForm range={range} />)}>
              Change…
            </button>
            <button type="button" class="danger" onClick={() => askRemoval(range)}>
              Remove…
            </button>
          </div>
        )}
      </div>
      <Bar range={range} segments={segments} />
      <Facts isWide>
        {range.physical_network && <Fact name="Physical network">{range.physical_network}</Fact>}
        <Fact name="For">{range.shared ? "every project" : `project ${range.project}`}</Fact>
        <Fact name="Set by">{range.default ? "the default ranges of the cluster" : "an administrator"}</Fact>
        {range.description && <Fact name="Description">{range.description}</Fact>}
        <Fact name="In use">
          <Users range={range} segments={segments} />
        </Fact>
      </Facts>
    </section>
  );
}

const MOST_USERS = 50;

function Users({ range, segments }: { range: SegmentRange; segments: readonly Segment[] }) {
  const inside = segments.filter(({ id }) => id >= range.minimum && id <= range.maximum).sort((a, b) => a.id - b.id);
  if (!inside.length) return <None>no id</None>;
  return (
    <>
      <Commas>
        {inside.slice(0, MOST_USERS).map(({ id, network }) => (
          <>
            {id} <a href={href(["networks", network])}>{network}</a>
          </>
        ))}
      </Commas>
      {inside.length > MOST_USERS && ` and ${format.number(inside.length - MOST_USERS)} more`}
    </>
  );
}

/** The ids of the range as a bar; what it shows is in words beside "In use". */
function Bar({ range, segments }: { range: SegmentRange; segments: readonly Segment[] }) {
  return (
    <div class="segment-bar" aria-hidden="true">
      {pieces(range.minimum, range.maximum, segments).map((piece) => (
        <span
          key={piece.first}
          class={piece.networks.length ? "used" : ""}
          title={pieceText(piece)}
          style={{ flexGrow: piece.last - piece.first + 1 }}
        />
      ))}
    </div>
  );
}

const TYPES = ["vlan", "vxlan", "gre", "geneve"];

function RangeForm({ range }: { range?: SegmentRange }) {
  const [name, setName] = useState(range?.name ?? "");
  const [type, setType] = useState(range?.network_type ?? "vlan");
  const [physical, setPhysical] = useState(range?.physical_network ?? "");
  const [minimum, setMinimum] = useState(range ? String(range.minimum) : "");
  const [maximum, setMaximum] = useState(range ? String(range.maximum) : "");
  const [project, setProject] = useState("");
  const [isShared, setShared] = useState(true);
  const [description, setDescription] = useState(range?.description ?? "");
  const [least, most] = [parseCount(minimum), parseCount(maximum)];
  const isOrdered = least !== null && most !== null && least <= most;
  const needsPhysical = !range && type === "vlan" && !physical.trim();
  const needsProject = !range && !isShared && !project.trim();
  const common = { name: name.trim(), minimum: least, maximum: most, description: description.trim() };
  return (
    <ChangeDialog
      title={range ? `Change segment range ${label(range)}` : "New segment range"}
      action={range ? "Save" : "Create the range"}
      isReady={isOrdered && !needsPhysical && !needsProject}
      run={async (send) => {
        if (range) {
          await send("PUT", `/2/segment-ranges/${encodeURIComponent(range.uuid)}/modify`, common);
          return;
        }
        const scope = { network_type: type, ...(type === "vlan" && { physical_network: physical.trim() }) };
        const owner = isShared ? { shared: true } : { shared: false, project: project.trim() };
        await send("POST", "/2/segment-ranges", { ranges: [{ ...common, ...scope, ...owner }] });
      }}
    >
      <TextField label="Name" value={name} onValue={setName} placeholder="none" isFocused />
      {!range && (
        <SelectField
          label="Network type"
          value={type}
          onValue={setType}
          options={TYPES.map((each) => ({ value: each, text: each }))}
        />
      )}
      {!range && type === "vlan" && (
        <TextField label="Physical network" value={physical} onValue={setPhysical} placeholder="physnet1" isRequired />
      )}
      <TextField label="Lowest id" value={minimum} onValue={setMinimum} placeholder="100" isRequired />
      <TextField
        label="Highest id"
        value={maximum}
        onValue={setMaximum}
        placeholder="199"
        isRequired
        problem={least !== null && most !== null && least > most ? "It is below the lowest id." : ""}
      />
      {!range && <CheckField label="For every project" isChecked={isShared} onCheck={setShared} />}
      {!range && !isShared && <TextField label="Project" value={project} onValue={setProject} isRequired />}
      <TextField label="Description" value={description} onValue={setDescription} placeholder="none" />
    </ChangeDialog>
  );
}

function askRemoval(range: SegmentRange): void {
  openDialog(
    <ChangeDialog
      title={`Remove segment range ${label(range)}?`}
      action="Remove the range"
      keep="Keep it"
      isDangerous
      run={async (send) => {
        await send("DELETE", `/2/segment-ranges/${encodeURIComponent(range.uuid)}`);
      }}
    >
      <p>No network gets an id of it any more. The server refuses while a network has one.</p>
    </ChangeDialog>,
  );
}
