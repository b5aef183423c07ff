// Parameters of an object: those set for itself first, then those that follow from the levels above.

export interface ParameterRow {
  readonly name: string;
  readonly value: unknown;
  readonly isSet: boolean;
}

type Values = Readonly<Record<string, unknown>>;

export function parameterRows(filled: Values, custom: Values): ParameterRow[] {
  const names = [...new Set([...Object.keys(filled), ...Object.keys(custom)])].sort();
  const rows = names.map((name) => ({
    name,
    value: name in filled ? filled[name] : custom[name],
    isSet: name in custom,
  }));
  return [...rows.filter((row) => row.isSet), ...rows.filter((row) => !row.isSet)];
}
