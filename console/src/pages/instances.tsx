import { type Signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useRef } from "preact/hooks";
import { type Power, bulk, runPowerForAll } from "../actions.tsx";
import { may, maySome } from "../api.ts";
import * as format from "../logic/format.ts";
import { countByStatus } from "../logic/overview.ts";
import { NEW_INSTANCE, href } from "../logic/routes.ts";
import { Filtered, naturalKey, orderText, parseOrder, remembered, sorted, warm } from "../logic/rows.ts";
import { type Instance, addressesOf, instanceStatus } from "../model.ts";
import { FilterBox, useFilter } from "../parts/filter.tsx";
import { useLists, useTitle } from "../parts/hooks.ts";
import { type Column, Table } from "../parts/table.tsx";
import { Badge, Failure, Loading, None } from "../parts/text.tsx";
import { replaceQuery, route } from "../router.ts";
import { instances, nodes } from "../store.ts";

const nameKey = remembered((instance: Instance) => naturalKey(instance.name));
const nodeKey = remembered((instance: Instance) => naturalKey(instance.pnode));
const addressKey = remembered((instance: Instance) => naturalKey(addressesOf(instance)[0] ?? "~"));
const searchText = remembered((instance: Instance) =>
  [
    instance.name,
    instance.pnode,
    instanceStatus(instance.status).word,
    ...addressesOf(instance),
    ...instance["nic.networks.names"],
    ...instance.tags,
  ]
    .join(" ")
    .toLowerCase(),
);

const INSTANCE_COLUMNS: readonly Column<Instance>[] = [
  {
    name: "name",
    title: "Name",
    sort: nameKey,
    cell: (row) => <a href={href(["instances", row.name])}>{row.name}</a>,
  },
  {
    name: "status",
    title: "Status",
    width: "8.5rem",
    sort: (row) => instanceStatus(row.status).word,
    cell: (row) => <Badge status={instanceStatus(row.status)} />,
  },
  {
    name: "node",
    title: "Node",
    width: "12rem",
    rank: "middle",
    sort: nodeKey,
    cell: (row) => <a href={href(["nodes", row.pnode])}>{row.pnode}</a>,
  },
  {
    name: "memory",
    title: "Memory",
    width: "6rem",
    rank: "middle",
    isNumber: true,
    first: "descending",
    sort: (row) => row["be/memory"],
    cell: (row) => format.size(row["be/memory"]),
  },
  {
    name: "cpus",
    title: "CPUs",
    width: "4.5rem",
    rank: "low",
    isNumber: true,
    first: "descending",
    sort: (row) => row.vcpus,
    cell: (row) => format.number(row.vcpus),
  },
  {
    name: "disk",
    title: "Disk",
    width: "6rem",
    rank: "low",
    isNumber: true,
    first: "descending",
    sort: (row) => row.disk_usage,
    cell: (row) => (row.disk_usage ? format.size(row.disk_usage) : <None />),
  },
  {
    name: "addresses",
    title: "Addresses",
    rank: "low",
    sort: addressKey,
    cell: (row) => addressesOf(row).join(", ") || <None />,
  },
];

const SORTS = new Map(INSTANCE_COLUMNS.map((column) => [column.name, column.sort]));
const FALLBACK = { column: "name", direction: "ascending" } as const;

export function InstancesPage() {
  useTitle("Instances");
  useLists(instances, nodes);
  const text = useFilter();
  const selected = useSignal<ReadonlySet<string>>(new Set());
  const order = useComputed(() => parseOrder(route.value.query.get("sort"), FALLBACK));
  const orderName = useComputed(() => orderText(order.value));
  const status = useComputed(() => route.value.query.get("status") ?? "");

  const ordered = useComputed(() => {
    const rows = instances.rows.value;
    const { column, direction } = parseOrder(orderName.value, FALLBACK);
    const key = SORTS.get(column) ?? nameKey;
    return sorted(rows, key, direction);
  });
  const filtered = useRef(new Filtered(searchText));
  const found = useComputed(() => filtered.current.rows(ordered.value, text.value));
  useSignalEffect(() => warm(instances.rows.value, [searchText, nameKey]));
  const shown = useComputed(() =>
    status.value ? found.value.filter((row) => (row.status ?? "unknown") === status.value) : found.value,
  );
  const counts = useComputed(() => countByStatus(found.value));
  const groupOf = useComputed(() => new Map(nodes.rows.value.map((node) => [node.name, node.group])));
  const chosen = useComputed(() =>
    shown.value.filter(
      (row) => selected.value.has(row.uuid) && may("operate", { ...row, "pnode.group": groupOf.value.get(row.pnode) }),
    ),
  );

  if (instances.failure.value && !instances.ready.value) return <Failure text={instances.failure.value} />;
  return (
    <div class="page-fills">
      <header class="head">
        <h1>Instances</h1>
        <p class="about" role="status">
          {instances.ready.value &&
            (shown.value.length === instances.rows.value.length
              ? format.plural(shown.value.length, "instance")
              : `${format.number(shown.value.length)} of ${format.plural(instances.rows.value.length, "instance")}`)}
        </p>
        {maySome("populate") && (
          <div class="actions">
            <a class="button primary" href={href([NEW_INSTANCE])}>
              New instance
            </a>
          </div>
        )}
      </header>
      <div class="tools">
        <FilterBox text={text} label="Filter instances" placeholder="name, node, address, network, tag" />
        <div class="chips" role="group" aria-label="Status">
          <Chip text="all" count={found.value.length} value="" present={status.value} />
          {counts.value.map((each) => (
            <Chip
              key={each.status}
              text={instanceStatus(each.status).word}
              count={each.count}
              value={each.status}
              present={status.value}
            />
          ))}
        </div>
        {maySome("operate") && <Bulk chosen={chosen} onDone={() => (selected.value = new Set())} />}
      </div>
      {instances.ready.value ? (
        <Table
          caption="Instances"
          fills
          columns={INSTANCE_COLUMNS}
          rows={shown.value}
          rowKey={instances.key}
          order={order.value}
          onOrder={(next) => replaceQuery({ sort: orderText(next) })}
          selection={maySome("operate") ? { keys: selected, name: (row) => row.name } : undefined}
          empty={instances.rows.value.length ? "No instance matches the filter." : "There are no instances."}
        />
      ) : (
        <Loading what="instances" />
      )}
    </div>
  );
}

function Chip({ text, count, value, present }: { text: string; count: number; value: string; present: string }) {
  return (
    <button type="button" aria-pressed={value === present} onClick={() => replaceQuery({ status: value })}>
      {text} <span class="count">{format.number(count)}</span>
    </button>
  );
}

function Bulk({ chosen, onDone }: { chosen: Signal<Instance[]>; onDone: () => void }) {
  const count = chosen.value.length;
  const run = (power: Power) => () => runPowerForAll(power, chosen.value, onDone);
  return (
    <div class="bulk" role="group" aria-label="Selected instances">
      <span role="status">
        {bulk.value
          ? `${bulk.value.text}, ${format.number(bulk.value.done)} of ${format.number(bulk.value.count)}`
          : `${format.number(count)} selected`}
      </span>
      <button type="button" disabled={!count} onClick={run("start")}>
        Start
      </button>
      <button type="button" disabled={!count} onClick={run("stop")}>
        Stop
      </button>
      <button type="button" disabled={!count} onClick={run("reboot")}>
        Reboot
      </button>
    </div>
  );
}

/** The instances of a node or of a network, as a part of its page. */
export function InstanceList({
  rows,
  caption,
  without = "",
}: {
  rows: readonly Instance[];
  caption: string;
  without?: string;
}) {
  const order = useSignal(parseOrder("", FALLBACK));
  const key = SORTS.get(order.value.column) ?? nameKey;
  return (
    <Table
      caption={caption}
      fills={rows.length > 30}
      columns={INSTANCE_COLUMNS.filter((column) => column.name !== without)}
      rows={sorted(rows, key, order.value.direction)}
      rowKey={instances.key}
      order={order.value}
      onOrder={(next) => (order.value = next)}
      empty="None."
    />
  );
}
