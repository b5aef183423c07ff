// What parts/screen.ts uses of noVNC (its docs/API.md); the package has no declarations of its own.

declare module "@novnc/novnc" {
  export interface Channel {
    binaryType: string;
    readonly protocol: string;
    readyState: number;
    onopen: (() => void) | null;
    onmessage: ((event: { readonly data: ArrayBuffer }) => void) | null;
    onerror: ((event: unknown) => void) | null;
    onclose: ((event: { readonly code: number; readonly reason: string }) => void) | null;
    send(data: Uint8Array | ArrayBuffer): void;
    close(): void;
  }

  export default class RFB extends EventTarget {
    constructor(place: HTMLElement, channel: Channel, options?: { readonly shared?: boolean });
    scaleViewport: boolean;
    background: string;
    sendCredentials(credentials: Readonly<Record<string, string>>): void;
    sendCtrlAltDel(): void;
    sendKey(keysym: number, code: string, isDown: boolean): void;
    focus(): void;
    disconnect(): void;
  }
}
