import { readFileSync } from 'node:fs';

/** A check as a real Envoy sent it, without what differs from run to run. */
export interface RecordedCheck {
  readonly what: string;
  /** `CheckRequest` in base64. */
  readonly bytes: string;
}

const GOLDEN = new URL('../golden/envoy-1.40/checks.json', import.meta.url);

/** Returns the checks that test/contract/envoy-checks.test.ts has recorded, by what they are about. */
export function recordedChecks(): ReadonlyMap<string, Buffer> {
  const recorded = JSON.parse(readFileSync(GOLDEN, 'utf8')) as readonly RecordedCheck[];
  return new Map(recorded.map(({ what, bytes }) => [what, Buffer.from(bytes, 'base64')]));
}
