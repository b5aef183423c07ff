// The screen of a guest, by VNC, with noVNC. Only the console's page loads this module.

import RFB, { type Channel } from "@novnc/novnc";

const CONTROL_LEFT = 0xffe3; // its keysym

export interface Viewer {
  /** Data of the guest's VNC server. */
  write(data: Uint8Array, done: () => void): void;
  focus(): void;
  /** Answer the question of the server for a password. */
  log(credentials: Readonly<Record<string, string>>): void;
  controlAltDelete(): void;
  dispose(): void;
}

export interface Events {
  onInput(data: Uint8Array): void;
  onConnect(): void;
  /** The server asks for these: "password", "username". */
  onQuestion(names: readonly string[]): void;
  onRefusal(reason: string): void;
  onLeave(): void;
}

/** Show the screen of a connection that has just been opened; it begins to talk at once. */
export function openScreen(place: HTMLElement, label: string, events: Events): Viewer {
  const channel: Channel = {
    binaryType: "arraybuffer",
    protocol: "",
    readyState: WebSocket.OPEN,
    onopen: null,
    onmessage: null,
    onerror: null,
    onclose: null,
    // noVNC uses its buffer again.
    send: (data) => events.onInput(new Uint8Array(data).slice()),
    close: () => {
      if (channel.readyState === WebSocket.CLOSED) return;
      channel.readyState = WebSocket.CLOSED;
      queueMicrotask(() => channel.onclose?.({ code: 1000, reason: "" }));
    },
  };
  const rfb = new RFB(place, channel, { shared: true });
  let isOver = false;
  rfb.scaleViewport = true;
  rfb.background = "transparent";
  const canvas = place.querySelector("canvas");
  canvas?.setAttribute("tabindex", "0");
  canvas?.setAttribute("role", "application");
  canvas?.setAttribute("aria-label", label);
  const on = <Detail>(name: string, act: (detail: Detail) => void) =>
    rfb.addEventListener(name, (event) => act((event as CustomEvent<Detail>).detail));
  on("connect", events.onConnect);
  on("disconnect", () => {
    isOver = true;
  });
  on("credentialsrequired", ({ types }: { types: readonly string[] }) => events.onQuestion(types));
  on("securityfailure", ({ reason }: { reason?: string }) => events.onRefusal(reason ?? ""));
  const leave = (event: KeyboardEvent) => {
    if (!(event.ctrlKey && event.key === "]")) return;
    event.preventDefault();
    event.stopPropagation();
    rfb.sendKey(CONTROL_LEFT, "ControlLeft", false); // its end goes to the page
    events.onLeave();
  };
  place.addEventListener("keydown", leave, { capture: true });
  return {
    write: (data, done) => {
      channel.onmessage?.({ data: data.slice().buffer });
      done();
    },
    focus: () => rfb.focus(),
    log: (credentials) => rfb.sendCredentials(credentials),
    controlAltDelete: () => rfb.sendCtrlAltDel(),
    dispose: () => {
      place.removeEventListener("keydown", leave, { capture: true });
      if (!isOver) rfb.disconnect();
      place.replaceChildren();
    },
  };
}
