// Sizes as people type them: "10G", "512 MiB", "1.5t"; a number alone is MiB, as in the commands.

const FACTORS: Readonly<Record<string, number>> = { "": 1, m: 1, g: 1024, t: 1024 * 1024 };
const SIZE = /^(\d+(?:\.\d+)?)\s*([mgt]?)(?:i?b)?$/i;

/** Return a size in MiB, rounded up, or null if the text is not a size. */
export function parseSize(text: string): number | null {
  const parts = SIZE.exec(text.trim());
  if (!parts) return null;
  const amount = Number(parts[1]) * (FACTORS[(parts[2] ?? "").toLowerCase()] ?? 1);
  return amount > 0 ? Math.ceil(amount) : null;
}

/** Return a size of MiB as people type it, without rounding: what a form sends again if nothing was changed. */
export function sizeText(mebibytes: number): string {
  return mebibytes > 0 && mebibytes % 1024 === 0 ? `${mebibytes / 1024}G` : `${mebibytes}M`;
}

/** Return a whole number above zero, or null if the text is not one. */
export function parseCount(text: string): number | null {
  const trimmed = text.trim();
  if (!/^\d{1,9}$/.test(trimmed)) return null;
  const count = Number(trimmed);
  return count > 0 ? count : null;
}
