// Numbers, sizes, times and plurals as people read them. All text of the console is English, so the locale is too.

const LOCALE = "en-GB";
const whole = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 1 });
const precise = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 2 });
const exactTime = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "medium" });
const minute = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit" });
const clock = new Intl.DateTimeFormat(LOCALE, { timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(LOCALE, { numeric: "always", style: "long" });
const rules = new Intl.PluralRules(LOCALE);
const conjunction = new Intl.ListFormat(LOCALE, { style: "long", type: "conjunction" });

const BINARY_UNITS = ["MiB", "GiB", "TiB", "PiB"];
const BYTE_UNITS = ["B", "KiB", ...BINARY_UNITS];
const TIME_UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

export function number(value: number): string {
  return whole.format(value);
}

/** A number that may be a part of one: "0.25". */
export function fraction(value: number): string {
  return precise.format(value);
}

/** The time of day to the minute; the argument is in seconds. */
export function minutes(time: number): string {
  return minute.format(time * 1000);
}

/** A percentage, with a space that does not break. */
export function share(percentage: number): string {
  return `${short.format(percentage)}\u00a0%`;
}

export function percent(part: number, total: number): string {
  return share(total > 0 ? (100 * part) / total : 0);
}

/** An amount of MiB, the unit of the API: "512 MiB", "1.5 GiB". */
export function size(mebibytes: number): string {
  return scaled(mebibytes, BINARY_UNITS);
}

/** An amount of bytes: "12 KiB". */
export function bytes(amount: number): string {
  return scaled(amount, BYTE_UNITS);
}

function scaled(number: number, units: readonly string[]): string {
  let amount = number;
  let unit = 0;
  while (Math.abs(amount) >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${short.format(amount)} ${units[unit]}`;
}

/** "1 instance", "2 instances"; a noun whose plural is irregular passes it. */
export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${whole.format(count)} ${rules.select(count) === "one" ? noun : nouns}`;
}

export function list(words: readonly string[]): string {
  return conjunction.format(words);
}

/** A time of the API, in seconds since the epoch or as [seconds, microseconds]; null if there is none. */
export function seconds(time: unknown): number | null {
  if (typeof time === "number") return time;
  if (Array.isArray(time) && typeof time[0] === "number") return time[0] + Number(time[1] ?? 0) / 1e6;
  return null;
}

export function exact(time: number): string {
  return exactTime.format(time * 1000);
}

export function timeOfDay(time: number): string {
  return clock.format(time * 1000);
}

/** "3 minutes ago", "in 2 days"; times of the last seconds are "just now". */
export function ago(time: number, now: number): string {
  const distance = time - now;
  if (Math.abs(distance) < 5) return "just now";
  const [unit, length] = TIME_UNITS.find(([, unitLength]) => Math.abs(distance) >= unitLength) ?? ["second", 1];
  return relative.format(Math.trunc(distance / length), unit);
}

/** "0.4 s", "3 min 20 s", "2 h 5 min". */
export function duration(length: number): string {
  if (length < 0) return "0 s";
  if (length < 10) return `${short.format(length)} s`;
  if (length < 60) return `${whole.format(length)} s`;
  const minutes = Math.floor(length / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(length % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${whole.format(Math.floor(hours / 24))} d ${hours % 24} h`;
}

/** A value of a parameter, of any type, as text. */
export function value(parameter: unknown): string {
  if (parameter === null || parameter === undefined || parameter === "") return "-";
  if (typeof parameter === "boolean") return parameter ? "yes" : "no";
  if (typeof parameter === "object") return JSON.stringify(parameter);
  return String(parameter);
}
