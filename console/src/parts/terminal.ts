// The terminal of a serial console, with xterm.js. Only the console's page loads this module.
//
// xterm.js draws on a canvas: its other renderer writes styles into the page, which the Content-Security-Policy refuses.

import { CanvasAddon } from "@xterm/addon-canvas";
import { Terminal } from "@xterm/xterm";

/** The size that a serial line has for its guest, which is not told of another one. */
const COLUMNS = 80;
const ROWS = 24;
const SMALLEST_FONT = 10;
const LARGEST_FONT = 16;
const SCROLLBACK_LINES = 5_000;
const WIDTH_OF_FONT = 0.602; // of a monospace character, by its size
const LEAST_CONTRAST = 4.5; // programs choose colours for dark terminals; WCAG 2.2, 1.4.3

export interface Screen {
  write(data: Uint8Array, done: () => void): void;
  focus(): void;
  /** Let screen readers follow what is printed. */
  read(isRead: boolean): void;
  recolour(): void;
  clear(): void;
  dispose(): void;
}

export interface Choices {
  readonly isRead: boolean;
  onInput(data: Uint8Array): void;
  /** The person leaves the terminal by its key; Tab belongs to the guest. */
  onLeave(): void;
}

export function openTerminal(place: HTMLElement, { isRead, onInput, onLeave }: Choices): Screen {
  const terminal = new Terminal({
    cols: COLUMNS,
    rows: ROWS,
    scrollback: SCROLLBACK_LINES,
    minimumContrastRatio: LEAST_CONTRAST,
    fontFamily: getComputedStyle(place).fontFamily,
    fontSize: fontFor(place),
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    screenReaderMode: isRead,
    linkHandler: { activate: () => undefined }, // a guest opens no pages
    theme: colours(place),
  });
  terminal.loadAddon(new CanvasAddon());
  terminal.open(place);
  terminal.attachCustomKeyEventHandler((event) => {
    if (!(event.ctrlKey && event.key === "]")) return true;
    event.preventDefault();
    if (event.type === "keydown") onLeave();
    return false;
  });
  const encoder = new TextEncoder();
  terminal.onData((text) => onInput(encoder.encode(text)));
  terminal.onBinary((text) => onInput(Uint8Array.from(text, (char) => char.charCodeAt(0))));
  const resizing = new ResizeObserver(() => {
    terminal.options.fontSize = fontFor(place);
  });
  resizing.observe(place);
  return {
    write: (data, done) => terminal.write(data, done),
    focus: () => terminal.focus(),
    read: (isRead) => {
      terminal.options.screenReaderMode = isRead;
    },
    recolour: () => {
      terminal.options.theme = colours(place);
    },
    clear: () => terminal.reset(),
    dispose: () => {
      resizing.disconnect();
      terminal.dispose();
    },
  };
}

function fontFor(place: HTMLElement): number {
  const fitting = Math.floor(place.clientWidth / (COLUMNS * WIDTH_OF_FONT));
  return Math.max(SMALLEST_FONT, Math.min(LARGEST_FONT, fitting));
}

function colours(place: HTMLElement) {
  const style = getComputedStyle(place);
  return {
    background: style.backgroundColor,
    foreground: style.color,
    cursor: style.color,
    cursorAccent: style.backgroundColor,
    selectionBackground: style.outlineColor,
  };
}
