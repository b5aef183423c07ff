// Dialogs: a question before something changes. The browser's own <dialog> keeps the focus inside and gives it back.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

const present = signal<ComponentChildren>(null);

export function openDialog(content: ComponentChildren): void {
  present.value = content;
}

export function closeDialog(): void {
  present.value = null;
}

/** The place of the dialog in the page. */
export function DialogPlace() {
  return <>{present.value}</>;
}

interface DialogProps {
  title: string;
  children: ComponentChildren;
  onClose?: () => void;
  isFixed?: boolean; // whether Escape leaves it open
}

export function Dialog({ title, children, onClose = closeDialog, isFixed = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // A cleanup of useEffect runs after the element was removed, and a removed dialog does not give the focus back.
  useLayoutEffect(() => {
    const dialog = element.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      aria-labelledby={titleId}
      onCancel={(event: Event) => {
        event.preventDefault();
        if (!isFixed) onClose();
      }}
    >
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}

interface ConfirmationProps {
  title: string;
  action: string;
  isDangerous?: boolean;
  typed?: string; // a text that must be typed
  onConfirm: () => void;
  children: ComponentChildren;
}

/** Asks before a change; with `typed`, the name of the object must be typed. */
export function Confirmation({ title, action, isDangerous = false, typed, onConfirm, children }: ConfirmationProps) {
  const [text, setText] = useState("");
  return (
    <Dialog title={title}>
      <form
        onSubmit={(event: Event) => {
          event.preventDefault();
          if (typed !== undefined && text !== typed) return;
          closeDialog();
          onConfirm();
        }}
      >
        {children}
        {typed !== undefined && (
          <label class="field">
            <span>
              Type <strong>{typed}</strong> to confirm
            </span>
            <input
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
              autocomplete="off"
              spellcheck={false}
              autofocus
            />
          </label>
        )}
        <div class="buttons">
          <button type="button" onClick={closeDialog}>
            Keep everything as it is
          </button>
          <button
            type="submit"
            class={isDangerous ? "danger" : "primary"}
            disabled={typed !== undefined && text !== typed}
          >
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
