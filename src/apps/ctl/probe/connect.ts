import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import type { Context, Status } from '../ports.ts';

const RETRY_MS = 500;
const ANSWER_MS = 5000;

/** Requests each URL until it answers, and prints those that do not. Returns 1 when there are such. */
export async function connectToAll(
  { io, ports: { clock }, signal }: Context,
  urls: readonly string[],
): Promise<Status> {
  const failures = await Promise.all(
    urls.map(async (url) => {
      let reason = 'no attempt was made';
      for (;;) {
        try {
          const response = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]) });
          if (response.ok) return [];
          reason = `HTTP status ${String(response.status)}`;
        } catch (cause) {
          if (signal.aborted) return [`${url}: ${reason}`];
          reason = causeOf(cause);
        }
        const isOver = await clock.sleep(RETRY_MS, signal).then(
          () => false,
          () => true,
        );
        if (isOver) return [`${url}: ${reason}`];
      }
    }),
  );
  const lines = failures.flat();
  for (const line of lines) io.stdout(`${line}\n`);
  if (lines.length === 0) io.stdout(`${String(urls.length)} of ${String(urls.length)} URLs answer\n`);
  return lines.length === 0 ? 0 : 1;
}

function causeOf(cause: unknown): string {
  if (isNetplugError(cause)) return cause.message;
  const inner = cause instanceof Error ? cause.cause : undefined;
  return reasonOf(inner ?? cause);
}
