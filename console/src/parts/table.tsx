// Tables of any length: of a long list only the rows in view are drawn, so 50,000 rows scroll and filter at once.

import { type Signal, useComputed, useSignal } from "@preact/signals";
import type { ComponentChildren, TargetedKeyboardEvent } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { number } from "../logic/format.ts";
import { type Direction, type Order, nextOrder, visible } from "../logic/rows.ts";

export interface Column<Row> {
  readonly name: string;
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly sort?: (row: Row) => string | number | null;
  readonly first?: Direction; // the direction of the first click
  readonly width?: string;
  readonly isNumber?: boolean;
  readonly rank?: "middle" | "low"; // hidden where there is little width: "low" first
}

export interface Selection<Row> {
  readonly keys: Signal<ReadonlySet<string>>;
  readonly name: (row: Row) => string;
}

interface TableProps<Row> {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  order?: Order | undefined;
  onOrder?: ((order: Order) => void) | undefined;
  selection?: Selection<Row> | undefined;
  empty: ComponentChildren;
  fills?: boolean; // whether it scrolls by itself, in the height that the page leaves
}

const ROW_HEIGHT = 32; // as in style.css
const ALL_DRAWN = 200; // up to this length, all rows are drawn

export function Table<Row>(props: TableProps<Row>) {
  const { columns, rows, rowKey, order, onOrder, selection, fills = false } = props;
  const frame = useRef<HTMLDivElement>(null);
  const place = useSignal({ scrolled: 0, height: 800 });
  const anchor = useRef<string | null>(null);
  const wanted = useRef<{ index: number; onBox: boolean } | null>(null); // the row that gets the focus once it is drawn

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element || !fills) return;
    const measure = () => {
      const { scrollTop, clientHeight } = element;
      const before = place.peek();
      const isNear = Math.abs(scrollTop - before.scrolled) < ROW_HEIGHT && clientHeight === before.height;
      if (!isNear) place.value = { scrolled: scrollTop, height: clientHeight };
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, [fills]);

  const isWhole = !fills || rows.length <= ALL_DRAWN;
  const { scrolled, height } = place.value;
  const part = isWhole ? { first: 0, end: rows.length } : visible(scrolled, height, ROW_HEIGHT, rows.length);
  const chosen = selection?.keys.value;
  const columnCount = columns.length + (selection ? 1 : 0);

  function choose(index: number, isRange: boolean): void {
    if (!selection) return;
    const key = rowKey(rows[index] as Row);
    const next = new Set(selection.keys.peek());
    const isOn = !next.has(key);
    const from = isRange && anchor.current !== null ? rows.findIndex((row) => rowKey(row) === anchor.current) : index;
    const [low, high] = from < 0 ? [index, index] : [Math.min(from, index), Math.max(from, index)];
    for (const row of rows.slice(low, high + 1)) {
      if (isOn) next.add(rowKey(row));
      else next.delete(rowKey(row));
    }
    anchor.current = key;
    selection.keys.value = next;
  }

  /** Arrow keys go from row to row, and Space selects; the rows that come into view are drawn first. */
  function onKey(event: TargetedKeyboardEvent<HTMLElement>): void {
    const row = (event.target as HTMLElement).closest<HTMLElement>("tr[data-index]");
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const index = wanted.current?.index ?? Number(row.dataset["index"]);
    const page = Math.max(1, Math.floor(height / ROW_HEIGHT) - 1);
    const moves: Record<string, number> = {
      ArrowDown: index + 1,
      ArrowUp: index - 1,
      PageDown: index + page,
      PageUp: index - page,
      Home: 0,
      End: rows.length - 1,
    };
    const target = moves[event.key];
    if (target === undefined) return;
    event.preventDefault();
    focusRow(Math.max(0, Math.min(rows.length - 1, target)), (event.target as HTMLElement).matches("input"));
  }

  function focusRow(index: number, onBox: boolean): void {
    const element = frame.current;
    if (!element) return;
    wanted.current = { index, onBox };
    if (!isWhole) {
      const top = index * ROW_HEIGHT;
      if (top < element.scrollTop) element.scrollTop = top;
      if (top > element.scrollTop + height - 3 * ROW_HEIGHT) element.scrollTop = top - height + 3 * ROW_HEIGHT;
      place.value = { scrolled: element.scrollTop, height: element.clientHeight };
    }
    focusWanted();
  }

  function focusWanted(): void {
    if (!wanted.current) return;
    const { index, onBox } = wanted.current;
    const row = frame.current?.querySelector(`tr[data-index="${index}"]`);
    if (!row) return;
    wanted.current = null;
    row.querySelector<HTMLElement>(onBox ? "input" : "a, button, input")?.focus();
  }

  useLayoutEffect(focusWanted);

  return (
    <div
      class={fills ? "table fills" : "table"}
      ref={frame}
      role={fills ? "region" : undefined}
      aria-label={fills ? props.caption : undefined}
      tabIndex={fills ? 0 : undefined}
    >
      <table aria-rowcount={rows.length + 1}>
        <caption class="unseen">{props.caption}</caption>
        <colgroup>
          {selection && <col class="box" />}
          {columns.map((column) => (
            <col key={column.name} class={column.rank ?? ""} style={column.width ? { width: column.width } : {}} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {selection && (
              <th class="box" scope="col">
                <SelectAll rows={rows} rowKey={rowKey} keys={selection.keys} />
              </th>
            )}
            {columns.map((column) => (
              <Head key={column.name} column={column} order={order} onOrder={onOrder} />
            ))}
          </tr>
        </thead>
        <tbody onKeyDown={onKey}>
          {part.first > 0 && <Space rows={part.first} columns={columnCount} />}
          {rows.slice(part.first, part.end).map((row, i) => {
            const key = rowKey(row);
            const index = part.first + i;
            return (
              <tr key={key} data-index={index} aria-rowindex={index + 2} class={chosen?.has(key) ? "chosen" : ""}>
                {selection && (
                  <td class="box">
                    <input
                      type="checkbox"
                      checked={chosen?.has(key) ?? false}
                      aria-label={`Select ${selection.name(row)}`}
                      onClick={(event) => choose(index, event.shiftKey)}
                    />
                  </td>
                )}
                {columns.map((column) => (
                  <td key={column.name} class={`${column.rank ?? ""} ${column.isNumber ? "number" : ""}`}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {part.end < rows.length && <Space rows={rows.length - part.end} columns={columnCount} />}
        </tbody>
      </table>
      {rows.length === 0 && <p class="empty">{props.empty}</p>}
    </div>
  );
}

/** The height of the rows that are not drawn. */
function Space({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr class="space" aria-hidden="true">
      <td colSpan={columns} style={{ height: `${rows * ROW_HEIGHT}px` }} />
    </tr>
  );
}

interface HeadProps<Row> {
  column: Column<Row>;
  order: Order | undefined;
  onOrder: ((order: Order) => void) | undefined;
}

function Head<Row>({ column, order, onOrder }: HeadProps<Row>) {
  const isPresent = order?.column === column.name;
  const first = column.first ?? "ascending";
  return (
    <th
      scope="col"
      class={`${column.rank ?? ""} ${column.isNumber ? "number" : ""}`}
      aria-sort={isPresent ? order.direction : undefined}
    >
      {column.sort && order && onOrder ? (
        <button type="button" onClick={() => onOrder(nextOrder(order, column.name, first))}>
          {column.title}
          <span class="arrow" aria-hidden="true">
            {isPresent ? (order.direction === "ascending" ? "▲" : "▼") : ""}
          </span>
        </button>
      ) : (
        column.title
      )}
    </th>
  );
}

interface SelectAllProps<Row> {
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  keys: Signal<ReadonlySet<string>>;
}

function SelectAll<Row>({ rows, rowKey, keys }: SelectAllProps<Row>) {
  const count = useComputed(() => keys.value.size);
  const isAll = rows.length > 0 && count.value >= rows.length && rows.every((row) => keys.value.has(rowKey(row)));
  const box = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (box.current) box.current.indeterminate = !isAll && count.value > 0;
  });
  return (
    <input
      ref={box}
      type="checkbox"
      checked={isAll}
      aria-label={`Select all ${number(rows.length)} in the list`}
      onClick={() => {
        keys.value = isAll ? new Set() : new Set(rows.map(rowKey));
      }}
    />
  );
}
