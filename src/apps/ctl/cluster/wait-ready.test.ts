import { expect, it } from 'vitest';
import { virtualClock } from '../../../base/clock.ts';
import { isNetplugError } from '../../../base/errors.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { waitForInstallation } from './wait-ready.ts';

const condition = (type: string, status: string, reason: string, message = ''): object => ({
  type,
  status,
  reason,
  message,
});
const AVAILABLE = condition('Available', 'True', 'Serving');
const DONE = condition('Progressing', 'False', 'AsConfigured');
const REFUSED = [
  AVAILABLE,
  condition('Progressing', 'False', 'InvalidConfiguration', 'The change is refused: see Degraded'),
  condition('Degraded', 'True', 'InvalidConfiguration', 'spec.typha: not with etcd'),
];

interface Status {
  readonly observedGeneration?: number;
  readonly conditions: readonly object[];
}

/** Waits for generation 2 of an Installation whose status is the next one each second. Returns what was shown, and the end. */
async function wait(until: 'as-configured' | 'available', ...statuses: readonly Status[]): Promise<readonly string[]> {
  const clock = virtualClock(0);
  const shown: string[] = [];
  let reads = 0;
  const api = {
    get: async () => {
      const status = statuses[Math.min(reads, statuses.length - 1)];
      reads += 1;
      const metadata = { name: 'default', generation: 2 };
      return Promise.resolve({
        outcome: 'ok',
        value: { apiVersion: API_VERSION, kind: 'Installation', metadata, status },
      });
    },
    list: async () => Promise.resolve([]),
  } as unknown as OrchApi;
  const { signal } = new AbortController();
  const run = { api, clock, signal, onProgress: (text: string): void => void shown.push(text) };
  try {
    await waitForInstallation(run, until);
    return [...shown, `done after ${String(reads)}`];
  } catch (cause) {
    if (!isNetplugError(cause, 'install/refused')) throw cause;
    return [...shown, cause.message];
  }
}

it.each(['as-configured', 'available'] as const)(
  'waits until an installation is %s with the generation that was written last',
  async (until) => {
    const rolling = condition('Progressing', 'True', 'RollingOut', 'netplug-agent: 1 of 3 updated');
    const found = await wait(
      until,
      { conditions: [] },
      { observedGeneration: 1, conditions: [AVAILABLE, DONE] },
      { observedGeneration: 2, conditions: [AVAILABLE, rolling] },
      { observedGeneration: 2, conditions: [AVAILABLE, DONE] },
    );
    expect(found).toEqual([
      'installation: no status yet',
      'installation: the operator has not read the change yet',
      'installation: RollingOut: netplug-agent: 1 of 3 updated',
      'done after 4',
    ]);
  },
);

it('waits for an installation that is as configured until it is available', async () => {
  const unusable = condition('Available', 'False', 'PluginUnusable', 'node "a": no conflist');
  const status = { observedGeneration: 2, conditions: [unusable, DONE] };
  expect(await wait('available', status, { ...status, conditions: [AVAILABLE, DONE] })).toEqual([
    'installation: PluginUnusable: node "a": no conflist',
    'done after 2',
  ]);
  expect(await wait('as-configured', status)).toEqual(['done after 1']);
});

it('fails with what Degraded says when the operator refuses the generation', async () => {
  expect(
    await wait(
      'available',
      { observedGeneration: 1, conditions: REFUSED },
      { observedGeneration: 2, conditions: REFUSED },
    ),
  ).toEqual([
    'installation: the operator has not read the change yet',
    'Cannot carry out the Installation: netplug-operator refuses it: InvalidConfiguration: spec.typha: not with etcd',
  ]);
});
