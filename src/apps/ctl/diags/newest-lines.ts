/** The lines of a log from a time on; lines without a time of their own belong to the one before. */
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

/** The end of a text, whole lines only. */
export function newestLines(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= maxBytes) return text;
  const end = bytes.subarray(bytes.length - maxBytes);
  return end.subarray(end.indexOf('\n') + 1).toString('utf8');
}
