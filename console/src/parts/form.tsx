// Fields of forms: a label, the control, what is allowed beside it, and the problem below it.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  problem?: string | undefined;
}

interface Described {
  readonly id: string;
  readonly "aria-describedby": string | undefined;
  readonly "aria-invalid": boolean | undefined;
}

/** A label around a control; the control gets the ids of hint and problem, which a screen reader then reads too. */
function Labelled({
  label,
  hint,
  problem,
  children,
}: FieldProps & { children: (aria: Described) => ComponentChildren }) {
  const id = useId();
  const described = [hint ? `${id}-hint` : "", problem ? `${id}-problem` : ""].filter(Boolean).join(" ");
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": described || undefined, "aria-invalid": problem ? true : undefined })}
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {problem && (
        <span class="problem" id={`${id}-problem`}>
          {problem}
        </span>
      )}
    </div>
  );
}

interface TextFieldProps extends FieldProps {
  value: string;
  onValue: (text: string) => void;
  placeholder?: string;
  isRequired?: boolean;
  isFocused?: boolean;
}

export function TextField({ value, onValue, placeholder, isRequired, isFocused, ...field }: TextFieldProps) {
  return (
    <Labelled {...field}>
      {(aria) => (
        <input
          {...aria}
          value={value}
          placeholder={placeholder}
          required={isRequired}
          autofocus={isFocused}
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      )}
    </Labelled>
  );
}

interface AreaFieldProps extends FieldProps {
  value: string;
  onValue: (text: string) => void;
  placeholder?: string;
  isRequired?: boolean;
}

/** A text of several lines. */
export function AreaField({ value, onValue, placeholder, isRequired, ...field }: AreaFieldProps) {
  return (
    <Labelled {...field}>
      {(aria) => (
        <textarea
          {...aria}
          rows={6}
          value={value}
          placeholder={placeholder}
          required={isRequired}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      )}
    </Labelled>
  );
}

export interface Option {
  readonly value: string;
  readonly text: string;
  readonly isDisabled?: boolean;
}

interface SelectFieldProps extends FieldProps {
  value: string;
  onValue: (value: string) => void;
  options: readonly Option[];
}

export function SelectField({ value, onValue, options, ...field }: SelectFieldProps) {
  const isKnown = options.some((option) => option.value === value);
  return (
    <Labelled {...field}>
      {(aria) => (
        <select {...aria} value={value} onChange={(event) => onValue(event.currentTarget.value)}>
          {!isKnown && <option value={value}>{value}</option>}
          {options.map((option) => (
            <option key={option.value} value={option.value} disabled={option.isDisabled}>
              {option.text}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  );
}

interface CheckFieldProps {
  label: string;
  isChecked: boolean;
  onCheck: (isChecked: boolean) => void;
}

export function CheckField({ label, isChecked, onCheck }: CheckFieldProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={isChecked} onChange={(event) => onCheck(event.currentTarget.checked)} /> {label}
    </label>
  );
}

/** Return a list with one of its elements replaced, or without it. */
export function replaced<Element>(list: readonly Element[], at: number, element?: Element): Element[] {
  return element === undefined ? list.toSpliced(at, 1) : list.toSpliced(at, 1, element);
}
