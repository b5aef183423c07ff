// The map of a pool: a cell for each address, or for each block of addresses in a large pool, which can be opened.

import type { TargetedKeyboardEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  type Range,
  type State,
  type Usage,
  blocks,
  contains,
  formatAddress,
  parseAddress,
  rangeSize,
} from "../logic/addresses.ts";

const MOST_CELLS = 512; // addresses that are drawn as cells of their own
const MOST_BLOCKS = 256;
const LEAST_BLOCK = 256;
const PER_ROW = 32;

const integers = new Intl.NumberFormat("en-GB");

export const STATES: Readonly<Record<State, { word: string; letter: string }>> = {
  free: { word: "free", letter: "" },
  used: { word: "in use", letter: "X" },
  guest: { word: "still used by a running guest", letter: "H" },
  quarantined: { word: "quarantined", letter: "Q" },
  external: { word: "reserved externally", letter: "E" },
  gateway: { word: "gateway", letter: "G" },
  end: { word: "end of the subnet", letter: "N" },
};

export function rangeText(range: Range): string {
  const first = formatAddress(range.family, range.first);
  return range.first === range.last ? first : `${first}-${formatAddress(range.family, range.last)}`;
}

interface MapProps {
  range: Range;
  usage: Usage;
  present: string; // the address that is looked at
  onLook: (address: string) => void;
}

/** A pool; `path` has the blocks that were opened, each inside the one before. */
export function PoolMap({ range, usage, present, onLook }: MapProps) {
  const [path, setPath] = useState<Range[]>([]);
  const [text, setText] = useState("");
  const shown = path.at(-1) ?? range;
  const parsed = parseAddress(present);
  const isLarge = rangeSize(range) > BigInt(MOST_CELLS);

  useEffect(() => {
    if (parsed && contains(range, parsed.family, parsed.value)) setPath(pathTo(range, parsed.value));
  }, [present]);

  function jump(event: Event): void {
    event.preventDefault();
    const target = parseAddress(text);
    if (target && contains(range, target.family, target.value)) onLook(text.trim().toLowerCase());
  }

  return (
    <div class="map">
      {isLarge && (
        <div class="tools">
          <nav aria-label="Blocks">
            <button type="button" class="quiet" onClick={() => setPath([])}>
              whole pool
            </button>
            {path.map((block, i) => (
              <span key={String(block.first)}>
                {" / "}
                <button type="button" class="quiet" onClick={() => setPath(path.slice(0, i + 1))}>
                  {rangeText(block)}
                </button>
              </span>
            ))}
          </nav>
          <form class="jump" onSubmit={jump}>
            <input
              aria-label="Go to an address of this pool"
              placeholder="Go to address"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </form>
        </div>
      )}
      {rangeSize(shown) > BigInt(MOST_CELLS) ? (
        <Blocks range={shown} usage={usage} onOpen={(block) => setPath([...path, block])} />
      ) : (
        <Cells range={shown} usage={usage} present={parsed?.value ?? null} onLook={onLook} />
      )}
    </div>
  );
}

function pathTo(range: Range, value: bigint): Range[] {
  const path: Range[] = [];
  let inside = range;
  while (rangeSize(inside) > BigInt(MOST_CELLS)) {
    const block = blocks(inside, MOST_BLOCKS, LEAST_BLOCK).find((part) => value >= part.first && value <= part.last);
    if (!block) break;
    path.push(block);
    inside = block;
  }
  return path;
}

function Blocks({ range, usage, onOpen }: { range: Range; usage: Usage; onOpen: (block: Range) => void }) {
  const parts = blocks(range, MOST_BLOCKS, LEAST_BLOCK);
  const items = parts.map((block) => {
    const size = rangeSize(block);
    const taken = usage.taken(block);
    const permille = Number((taken * 1000n) / size);
    const level = taken === 0n ? 0 : Math.max(1, Math.ceil(permille / 250));
    const label = `${rangeText(block)}: ${integers.format(taken)} of ${integers.format(size)} not free`;
    return { key: block, label, level, block };
  });
  const length = integers.format(rangeSize(parts[1] ?? parts[0] ?? range));
  return (
    <>
      <p class="about">
        Each cell is a block of {length} addresses, darker if more of them are not free. Open one to look inside.
      </p>
      <Grid
        items={items.map((item) => ({
          key: String(item.block.first),
          label: item.label,
          classes: `level${item.level}`,
          letter: item.level === 4 ? "■" : item.level > 0 ? "▪" : "",
          open: () => onOpen(item.block),
        }))}
        offset={0}
        rowLabel={(index) => (parts[index] ? formatAddress(range.family, (parts[index] as Range).first) : "")}
        label={`Blocks of ${rangeText(range)}`}
        present={-1}
      />
    </>
  );
}

interface CellsProps {
  range: Range;
  usage: Usage;
  present: bigint | null;
  onLook: (address: string) => void;
}

function Cells({ range, usage, present, onLook }: CellsProps) {
  const count = Number(rangeSize(range));
  const offset = Number(range.first % BigInt(PER_ROW));
  const items = Array.from({ length: count }, (_, i) => {
    const value = range.first + BigInt(i);
    const address = formatAddress(range.family, value);
    const { state, owner } = usage.at(value);
    const { word, letter } = STATES[state];
    return {
      key: address,
      label: `${address}, ${word}${owner ? ` by ${owner}` : ""}`.replace("quarantined by", "quarantined, last"),
      classes: state,
      letter,
      open: () => onLook(address),
    };
  });
  return (
    <Grid
      items={items}
      offset={offset}
      rowLabel={(index) => formatAddress(range.family, range.first + BigInt(index))}
      label={`Addresses ${rangeText(range)}`}
      present={present !== null && contains(range, range.family, present) ? Number(present - range.first) : -1}
    />
  );
}

interface Item {
  readonly key: string;
  readonly label: string;
  readonly classes: string;
  readonly letter: string;
  readonly open: () => void;
}

interface GridProps {
  items: readonly Item[];
  offset: number; // empty places before the first item, so that rows begin at round addresses
  rowLabel: (index: number) => string;
  label: string;
  present: number;
}

/** Cells in rows; one of them is in the order of Tab, and arrow keys go to the others. */
function Grid({ items, offset, rowLabel, label, present }: GridProps) {
  const element = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState(Math.max(0, present));
  const stop = Math.min(Math.max(present >= 0 ? present : current, 0), items.length - 1);
  const rows = Array.from({ length: Math.ceil((items.length + offset) / PER_ROW) }, (_, row) => row);

  function onKey(event: TargetedKeyboardEvent<HTMLElement>): void {
    const index = Number((event.target as HTMLElement).dataset["index"]);
    const moves: Record<string, number> = {
      ArrowRight: index + 1,
      ArrowLeft: index - 1,
      ArrowDown: index + PER_ROW,
      ArrowUp: index - PER_ROW,
      Home: 0,
      End: items.length - 1,
    };
    const target = moves[event.key];
    if (target === undefined || Number.isNaN(index)) return;
    event.preventDefault();
    if (target < 0 || target >= items.length) return;
    setCurrent(target);
    element.current?.querySelector<HTMLElement>(`[data-index="${target}"]`)?.focus();
  }

  return (
    <div class="cells" role="grid" aria-label={label} ref={element} onKeyDown={onKey}>
      {rows.map((row) => {
        const first = Math.max(0, row * PER_ROW - offset);
        const end = Math.min(items.length, (row + 1) * PER_ROW - offset);
        const pad = row === 0 ? offset : 0;
        return (
          <div class="cell-row" role="row" key={row}>
            <span class="row-label" role="rowheader">
              {rowLabel(first)}
            </span>
            <span class="cell-line" role="presentation">
              {Array.from({ length: pad }, (_, i) => (
                <span key={`pad${i}`} class="cell pad" aria-hidden="true" />
              ))}
              {items.slice(first, end).map((item, i) => {
                const index = first + i;
                return (
                  <span role="gridcell" key={item.key}>
                    <button
                      type="button"
                      class={`cell ${item.classes} ${index === present ? "present" : ""}`}
                      data-index={index}
                      tabIndex={index === stop ? 0 : -1}
                      aria-label={item.label}
                      title={item.label}
                      onClick={item.open}
                    >
                      {item.letter}
                    </button>
                  </span>
                );
              })}
            </span>
          </div>
        );
      })}
    </div>
  );
}

export function Legend({ states }: { states: readonly State[] }) {
  return (
    <ul class="legend" aria-label="Legend">
      {states.map((state) => (
        <li key={state}>
          <span class={`cell ${state}`} aria-hidden="true">
            {STATES[state].letter}
          </span>{" "}
          {STATES[state].word}
        </li>
      ))}
    </ul>
  );
}
