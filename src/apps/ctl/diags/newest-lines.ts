/** Returns the lines of a log since a time. A line without a timestamp belongs to the line before it. */
export function linesSince(text: string, sinceMs: number | undefined): string {
  if (sinceMs === undefined) return text;
  let isKept = true;
  const kept = text.split('\n').filter((line) => {
    const time = Date.parse(/^\d{4}-\d{2}-\d{2}[T ][\d:.]+Z?/.exec(line)?.[0] ?? '');
    if (!Number.isNaN(time)) isKept = time >= sinceMs;
    return isKept;
  });
  return kept.join('\n');
}

/** Returns the last whole lines that fit into `maxBytes`. */
export function newestLines(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= maxBytes) return text;
  const end = bytes.subarray(bytes.length - maxBytes);
  return end.subarray(end.indexOf('\n') + 1).toString('utf8');
}
