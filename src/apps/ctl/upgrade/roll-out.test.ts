import { expect, it } from 'vitest';
import { virtualClock } from '../../../base/clock.ts';
import { VERSION } from '../../../base/version.ts';
import { AGENT_SET } from '../../../install/cluster/names.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import type { Collection } from '../../../kube/paths.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { tryCanary } from './roll-out.ts';
import { UPGRADE_ACTS } from './upgrade-acts.ts';
import type { UpgradeRun } from './upgrade-run.ts';

const [OLD, NEW] = ['v3.26.0', VERSION].map((release) => `registry.example/netplug-agent:${release}`);
const workload = (kind: string, image: string | undefined): Manifest => ({
  kind,
  apiVersion: 'apps/v1',
  metadata: { name: 'x', generation: 1 },
  spec: {
    replicas: 1,
    ...(kind === 'DaemonSet' ? { updateStrategy: { type: 'OnDelete' } } : {}),
    template: { spec: { containers: [{ image }] } },
  },
  status: { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 },
});
const ready = { type: 'Ready', status: 'True' };
const NODE = { metadata: { name: 'a' }, spec: {}, status: { conditions: [ready] } };
/** The agent of the release on node a, which does not become ready. */
const POD = {
  metadata: { name: 'netplug-agent-a', labels: { 'app.kubernetes.io/name': AGENT_SET } },
  spec: { nodeName: 'a', containers: [{ image: NEW }] },
  status: { phase: 'Running', containerStatuses: [{ name: 'agent', ready: false, state: { running: {} } }] },
};

/** A cluster in which agents wait for what their agent reports again and again, and the DaemonSet has the image. */
function runIn(image: string | undefined): { readonly parts: UpgradeRun; readonly shown: readonly string[] } {
  const clock = virtualClock(0);
  const { signal } = new AbortController();
  const reports = (): object => {
    const problem = {
      code: 'x',
      severity: 'error',
      text: 'no route',
      remedy: 'Mend it',
      since: '2026-12-01T09:00:00Z',
    };
    const spec = { release: VERSION, reportedAt: new Date(clock.now()).toISOString(), problems: [problem] };
    return { apiVersion: API_VERSION, kind: 'NodeReport', metadata: { name: 'a' }, spec };
  };
  const lists: Readonly<Record<string, () => object>> = { nodes: () => NODE, pods: () => POD, nodereports: reports };
  const objects: Readonly<Record<string, Manifest>> = {
    daemonsets: workload('DaemonSet', image),
    deployments: workload('Deployment', NEW),
    installations: { metadata: { annotations: { 'netplug.io/hold-agents': VERSION } } },
  };
  const api = {
    get: async ({ plural }: Collection) => Promise.resolve({ outcome: 'ok', value: objects[plural] }),
    patch: async () => Promise.resolve({ outcome: 'ok', value: {} }),
    list: async ({ plural }: Collection) => Promise.resolve([lists[plural]?.() ?? {}]),
  } as unknown as OrchApi;
  const shown: string[] = [];
  const run = { api, clock, signal, onProgress: (text: string): void => void shown.push(text) };
  const session = { api, context: { signal } };
  const parts = { run, session, target: { release: VERSION }, proof: 'skip' } as unknown as UpgradeRun;
  return { parts, shown };
}

const REASON = { code: 'install/not-ready', message: expect.stringContaining('no route') as string, hint: 'Mend it' };

it('ends the wait for the first agent with what it reports', async () => {
  const { parts, shown } = runIn(NEW);
  const action = { act: 'canary', node: 'a', agent: workload('DaemonSet', NEW), heldBy: 'operator' } as never;
  await expect(tryCanary(parts, action)).rejects.toMatchObject(REASON);
  expect(shown.at(-1)).toContain('node "a": no route');
});

it('ends the wait for an operator that rolls agents out with what an agent of the release reports', async () => {
  const { parts, shown } = runIn(OLD);
  const awaited = UPGRADE_ACTS['await-operator'].apply({ act: 'await-operator', release: VERSION } as never, parts);
  await expect(awaited).rejects.toMatchObject(REASON);
  expect(shown.at(-1)).toContain(`operator: DaemonSet ${AGENT_SET} has release v3.26.0; node "a": no route`);
});
