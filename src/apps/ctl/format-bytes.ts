const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** Formats a size such as `512 B` or `1.5 MiB`. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const amount = bytes / 1024 ** power;
  return `${power === 0 ? String(amount) : amount.toFixed(1)} ${UNITS[power] ?? 'B'}`;
}
