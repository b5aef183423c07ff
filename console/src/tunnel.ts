// A WebSocket with the data of a console (docs/reference/remote-api.md). Nothing piles up in the page: the server sends
// more only after the page has reported what it has processed.

import { session } from "./api.ts";
import { type Kind, type Report, parseReport, pieces } from "./logic/consoles.ts";

const PROTOCOL = "gantry.console";
const RECEIPT_BYTES = 32_768; // processed between two receipts; far below what the server sends without one

export interface Listener {
  /** Data of the console; `done` is called when it has been processed. */
  data(data: Uint8Array, done: () => void): void;
  report(report: Report): void;
  /** The connection has ended, or did not begin, without a word of the server. */
  lost(hasBegun: boolean): void;
}

export class Tunnel {
  readonly #socket: WebSocket;
  readonly #listener: Listener;
  #processed = 0;
  #reported = 0;
  #hasBegun = false;
  #isOver = false;

  constructor(name: string, kind: Kind, listener: Listener, { takesOver = false } = {}) {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const path = `/2/instances/${encodeURIComponent(name)}/console/${kind}${takesOver ? "?take-over=1" : ""}`;
    const protocols = [PROTOCOL, `gantry.csrf.${session.peek()?.csrf}`];
    this.#listener = listener;
    this.#socket = new WebSocket(`${scheme}://${location.host}${path}`, protocols);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.addEventListener("message", (event: MessageEvent<string | ArrayBuffer>) => this.#receive(event.data));
    this.#socket.addEventListener("close", () => this.#end(() => listener.lost(this.#hasBegun)));
  }

  send(data: Uint8Array): void {
    if (this.#isOver || this.#socket.readyState !== WebSocket.OPEN) return;
    for (const piece of pieces(data)) this.#socket.send(new Uint8Array(piece));
  }

  close(): void {
    this.#end(() => undefined);
  }

  /** Say the last word once. */
  #end(say: () => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    // The browser complains of a connection that is closed before it is open.
    if (this.#socket.readyState === WebSocket.CONNECTING)
      this.#socket.addEventListener("open", () => this.#socket.close());
    else this.#socket.close();
    say();
  }

  #receive(message: string | ArrayBuffer): void {
    if (this.#isOver) return;
    if (typeof message !== "string") {
      this.#listener.data(new Uint8Array(message), () => this.#note(message.byteLength));
      return;
    }
    const report = parseReport(message);
    if (!report) return;
    if (report.state === "open") {
      this.#hasBegun = true;
      this.#listener.report(report);
    } else {
      this.#end(() => this.#listener.report(report));
    }
  }

  #note(bytes: number): void {
    this.#processed += bytes;
    if (this.#processed - this.#reported < RECEIPT_BYTES || this.#socket.readyState !== WebSocket.OPEN) return;
    this.#reported = this.#processed;
    this.#socket.send(JSON.stringify({ received: this.#processed }));
  }
}
