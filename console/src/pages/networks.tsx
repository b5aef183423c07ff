import { may } from "../api.ts";
import * as format from "../logic/format.ts";
import { NEW_NETWORK, href } from "../logic/routes.ts";
import { matches, naturalKey, orderText, parseOrder, sorted, terms } from "../logic/rows.ts";
import type { Network } from "../model.ts";
import { FilterBox, useFilter } from "../parts/filter.tsx";
import { useLists, useTitle } from "../parts/hooks.ts";
import { type Column, Table } from "../parts/table.tsx";
import { Failure, Loading, Meter, None } from "../parts/text.tsx";
import { replaceQuery, route } from "../router.ts";
import { networks } from "../store.ts";

const COLUMNS: readonly Column<Network>[] = [
  {
    name: "name",
    title: "Name",
    sort: (row) => naturalKey(row.name),
    cell: (row) => <a href={href(["networks", row.name])}>{row.name}</a>,
  },
  { name: "subnets", title: "Subnets", rank: "middle", cell: (row) => row.cidrs.join(", ") || <None /> },
  {
    name: "use",
    title: "Pools in use",
    width: "13rem",
    first: "descending",
    sort: (row) => row.utilization,
    cell: (row) =>
      row.utilization === null ? (
        <None>no pool</None>
      ) : (
        <Meter part={row.utilization} total={100} label={`${format.share(row.utilization)}`} />
      ),
  },
  {
    name: "free",
    title: "Free",
    width: "7rem",
    rank: "low",
    isNumber: true,
    sort: (row) => row.free_count,
    cell: (row) => format.number(row.free_count),
  },
  {
    name: "quarantined",
    title: "Quarantined",
    width: "7.5rem",
    rank: "low",
    isNumber: true,
    first: "descending",
    sort: (row) => row.quarantined_count,
    cell: (row) => format.number(row.quarantined_count),
  },
  {
    name: "instances",
    title: "Instances",
    width: "6.5rem",
    rank: "middle",
    isNumber: true,
    first: "descending",
    sort: (row) => row.inst_cnt,
    cell: (row) => format.number(row.inst_cnt),
  },
  {
    name: "segment",
    title: "Segment",
    width: "8rem",
    rank: "low",
    sort: (row) => row.segment,
    cell: (row) => (row.network_type ? `${row.network_type} ${row.segment ?? ""}` : <None />),
  },
];

const SORTS = new Map(COLUMNS.map((column) => [column.name, column.sort]));
const FALLBACK = { column: "name", direction: "ascending" } as const;

export function NetworksPage() {
  useTitle("Networks");
  useLists(networks);
  const text = useFilter();
  const order = parseOrder(route.value.query.get("sort"), FALLBACK);
  const words = terms(text.value);
  const found = networks.rows.value.filter((row) =>
    matches(`${row.name} ${row.cidrs.join(" ")} ${row.network_type ?? ""}`.toLowerCase(), words),
  );
  if (networks.failure.value && !networks.ready.value) return <Failure text={networks.failure.value} />;
  return (
    <div class="page-fills">
      <header class="head">
        <h1>Networks</h1>
        <p class="about" role="status">
          {networks.ready.value && format.plural(found.length, "network")}
        </p>
        <div class="actions">
          <a class="button" href={href(["ports"])}>
            Claims and ports
          </a>
          {may("wire") && (
            <a class="button primary" href={href([NEW_NETWORK])}>
              New network
            </a>
          )}
        </div>
      </header>
      <div class="tools">
        <FilterBox text={text} label="Filter networks" placeholder="name, subnet" />
      </div>
      {networks.ready.value ? (
        <Table
          caption="Networks"
          fills
          columns={COLUMNS}
          rows={sorted(found, SORTS.get(order.column) ?? ((row) => naturalKey(row.name)), order.direction)}
          rowKey={networks.key}
          order={order}
          onOrder={(next) => replaceQuery({ sort: orderText(next) })}
          empty={networks.rows.value.length ? "No network matches the filter." : "There are no networks."}
        />
      ) : (
        <Loading what="networks" />
      )}
    </div>
  );
}
