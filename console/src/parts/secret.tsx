// A dialog with a secret that is displayed once: it stays until the person closes it.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { closeDialog, Dialog } from "./dialog.tsx";

export function SecretDialog({ title, text, children }: { title: string; text: string; children: ComponentChildren }) {
  const [copied, setCopied] = useState("");
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      setCopied("Copied");
    } catch {
      setCopied("The browser does not allow it: select the text and copy it");
    }
  }
  return (
    <Dialog title={title} isFixed>
      {children}
      <p>
        <code class="secret">{text}</code>
      </p>
      <div class="buttons">
        <span role="status">{copied}</span>
        <button type="button" class="primary" onClick={() => void copy()}>
          Copy
        </button>
        <button type="button" onClick={closeDialog}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
