// Numbers and times as people read them.

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const count = (value: number): string => (value < 10_000 ? value.toLocaleString("en") : compact.format(value));

export const bytes = (value: number): string => {
  if (value < 1024) return `${value} B`;
  const units = ["kB", "MB", "GB"];
  let [size, unit] = [value / 1000, 0];
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
};

export const money = (dollars: number | null | undefined): string => {
  if (dollars === null || dollars === undefined) return "–";
  if (dollars === 0) return "$0";
  if (dollars < 0.01) return "<$0.01";
  return `$${dollars < 100 ? dollars.toFixed(2) : Math.round(dollars).toLocaleString("en")}`;
};

export const duration = (ms: number): string => {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
};

export const ago = (then: number, now: number): string => {
  const seconds = Math.round((now - then) / 1000);
  if (seconds < -60) return new Date(then).toLocaleString();
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`;
  if (seconds < 7 * 86_400) return `${Math.round(seconds / 86_400)} d`;
  const date = new Date(then);
  const year = new Date(now).getFullYear() === date.getFullYear() ? undefined : ("numeric" as const);
  return date.toLocaleDateString("en", { day: "numeric", month: "short", ...(year ? { year } : {}) });
};

export const moment = (text: unknown): number | null => {
  if (typeof text === "number") return text * 1000;
  const time = typeof text === "string" ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? null : time;
};

export const when = (time: number | null): string => (time === null ? "" : new Date(time).toLocaleString());
