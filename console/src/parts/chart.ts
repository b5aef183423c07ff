// Draws lines over time with uPlot. Loaded when a page has something to draw.

import uPlot from "uplot";
import { minutes } from "../logic/format.ts";

export interface Drawing {
  readonly times: number[];
  readonly lines: readonly { readonly name: string; readonly values: (number | null)[] }[];
}

/** The colours of lines, as style.css names them. */
const COLOURS = ["--busy", "--warn"];
const HEIGHT = 140;

export interface Chart {
  show(drawing: Drawing): void;
  remove(): void;
}

/** What the values of a chart are. */
export interface Scale {
  readonly text: (value: number) => string;
  /** The highest value that the chart shows at least, so that almost nothing does not look like much. */
  readonly least: number;
  readonly isBinary: boolean;
}

/** Seconds between the times beside an axis. */
const STEPS = [1, 2, 5, 10, 30, 60, 120, 180, 360].map((minutes) => 60 * minutes);
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** Draw into an element, as wide as it is. */
export function draw(element: HTMLElement, drawing: Drawing, scale: Scale): Chart {
  const colour = (name: string) => {
    element.style.color = `var(${name})`; // a canvas wants the colour itself, not what depends on the theme
    return getComputedStyle(element).color;
  };
  let plot = make(drawing);

  function make(shown: Drawing): uPlot {
    const [line, text] = [colour("--line"), colour("--dim")];
    return new uPlot(
      {
        width: Math.max(element.clientWidth, 200),
        height: HEIGHT,
        legend: { live: true },
        cursor: { drag: { x: false, y: false } },
        scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.05, scale.least)] } },
        axes: [
          {
            stroke: text,
            grid: { stroke: line },
            ticks: { stroke: line },
            incrs: STEPS,
            values: (_, times) => times.map((time) => minutes(time)),
          },
          {
            stroke: text,
            grid: { stroke: line },
            ticks: { stroke: line },
            size: 76,
            ...(scale.isBinary && { incrs: POWERS }),
            values: (_, values) => values.map((value) => (value === null ? "" : scale.text(value))),
          },
        ],
        series: [
          { label: "at", value: (_, time) => (time === null ? "–" : minutes(time)) },
          ...shown.lines.map(({ name }, i) => ({
            label: name,
            stroke: colour(COLOURS[i % COLOURS.length] ?? ""),
            width: 1.5,
            points: { show: false },
            value: (_: uPlot, value: number | null) => (value === null ? "–" : scale.text(value)),
          })),
        ],
      },
      data(shown),
      element,
    );
  }

  let shown = drawing;
  const again = () => {
    plot.destroy();
    plot = make(shown);
  };
  const width = new ResizeObserver(() => plot.setSize({ width: Math.max(element.clientWidth, 200), height: HEIGHT }));
  width.observe(element);
  // Colours are those of the theme, which may change while the page is open.
  const theme = new MutationObserver(again);
  theme.observe(document.documentElement, { attributes: true });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", again);
  return {
    show(next) {
      shown = next;
      plot.setData(data(next));
    },
    remove() {
      width.disconnect();
      theme.disconnect();
      system.removeEventListener("change", again);
      plot.destroy();
    },
  };
}

function data({ times, lines }: Drawing): uPlot.AlignedData {
  return [times, ...lines.map(({ values }) => values)];
}
