import { NetplugError } from '../base/errors.ts';
import type { Clock } from '../base/clock.ts';

/** Sends one GET request. Resolves to the HTTP status, rejects without a response. */
export type ProbeGate = (url: string, signal: AbortSignal) => Promise<number>;

const PERIOD_MS = 250;
const PROBE_TIMEOUT_MS = 5000;

/**
 * Polls all URLs and resolves once each has answered 2xx or 3xx (specification, "Readiness gate").
 * @throws gate/not-ready when the signal aborts first, with the last answer of each gate that was not ready
 */
export async function waitForGates(
  urls: readonly string[],
  { probe, clock, signal }: { probe: ProbeGate; clock: Clock; signal: AbortSignal },
): Promise<void> {
  const lastAnswers = new Map<string, string>();
  const waitForOne = async (url: string): Promise<void> => {
    lastAnswers.set(url, 'no answer yet');
    for (;;) {
      const answer = await askGate(url, { probe, signal });
      if (answer === undefined) {
        lastAnswers.delete(url);
        return;
      }
      if (!signal.aborted) lastAnswers.set(url, answer);
      await clock.sleep(PERIOD_MS, signal);
    }
  };
  try {
    await Promise.all(urls.map(waitForOne));
  } catch (cause) {
    const waiting = [...lastAnswers].map(([url, answer]) => `"${url}" (${answer})`).join(', ');
    throw new NetplugError('gate/not-ready', `Cannot set up the pod: readiness gates are not ready: ${waiting}`, {
      hint: 'Check the services behind these URLs; the runtime retries the pod',
      facts: { gates: [...lastAnswers.keys()] },
      cause,
    });
  }
}

async function askGate(
  url: string,
  { probe, signal }: { probe: ProbeGate; signal: AbortSignal },
): Promise<string | undefined> {
  signal.throwIfAborted();
  try {
    const status = await probe(url, AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]));
    return status >= 200 && status < 400 ? undefined : `HTTP ${String(status)}`;
  } catch (cause) {
    return cause instanceof Error && cause.message !== '' ? cause.message : String(cause);
  }
}
