// netplug-sidecar in the path of requests, with a real Envoy, an agent and an API server: what the check adds to a request, how soon a
// changed policy is in force, and what rules with http cost a pod that starts.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BOTH_CHECKS, startEnvoy } from '../../../test/support/envoy.ts';
import { HTTP_PORT, sidecarScene, type SidecarScene } from '../../../test/support/sidecar-scene.ts';
import { until } from '../../../test/support/until.ts';
import type { Figure, Finding, RowOptions } from '../report.ts';
import { quantile } from '../statistics.ts';

const ASKER = join(import.meta.dirname, '../ask-again.ts');
const ROUNDS = 6;
const REQUESTS = 3000;
const CHANGES = 100;
const PODS = 20;
/** Longer than a change waits on its way to the sidecars of a node. */
const SETTLED_MS = 1500;
const POLICIES = '/apis/netplug.io/v3/namespaces/shop/networkpolicies';

export async function measureSidecarPath({ candidates }: RowOptions): Promise<Finding> {
  if (!candidates.includes('agent')) return {};
  await using scene = await sidecarScene();
  scene.startSidecar();
  await using envoy = await startEnvoy(scene.web.netns, { httpPorts: [HTTP_PORT] });
  await scene.untilState('guarding');
  const changed = await delaysOfChanges(scene);
  const adds = await costOfAdd(scene);
  // The same for the kernel with and without the check.
  await scene.server.call('POST', POLICIES, { body: policyOf('open', { order: 1, ingress: [{ action: 'Allow' }] }) });
  const added: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await envoy.use(BOTH_CHECKS);
    await until(async () => (await scene.shown())?.ports.includes(HTTP_PORT) === true, 'the port is guarded');
    const asked = await timesOf(scene);
    await envoy.use({ ofRequests: [], ofConnections: [] });
    await until(async () => (await scene.shown())?.ports.includes(HTTP_PORT) === false, 'the port is not guarded');
    const alone = await timesOf(scene);
    added.push((quantile(asked, 0.5) - quantile(alone, 0.5)) * 1000);
  }
  const figure = (id: string, what: string, value: number, unit: string): Figure => ({
    id: `sidecar.path.${id}`,
    what: `netplug-sidecar beside Envoy, ${what}`,
    value,
    unit,
  });
  return {
    figures: [
      figure('latency', 'what the check adds to a request, p50, median of rounds by turns', quantile(added, 0.5), 'µs'),
      figure(
        'change.p50',
        'from the write of a policy until requests are judged by it, p50',
        quantile(changed, 0.5),
        'ms',
      ),
      figure(
        'change.p99',
        'from the write of a policy until requests are judged by it, p99',
        quantile(changed, 0.99),
        'ms',
      ),
      figure('add', 'ADD with rules with http on the node / without, p50', adds, ''),
    ],
  };
}

function policyOf(name: string, spec: object): object {
  const metadata = { name, namespace: 'shop' };
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'NetworkPolicy',
    metadata,
    spec: { selector: "app == 'web'", types: ['Ingress'], ...spec },
  };
}

/** Times of requests that follow each other on one connection, in milliseconds. */
async function timesOf(scene: SidecarScene): Promise<readonly number[]> {
  const { stdout } = asker(scene, '/items/1', REQUESTS);
  let text = '';
  stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  await once(stdout, 'close');
  return text
    .trim()
    .split('\n')
    .map((line) => Number(line.split(' ')[2]));
}

function asker({ client, web }: SidecarScene, path: string, times: number): ChildProcessByStdio<null, Readable, null> {
  const argv = [process.execPath, ASKER, web.address, String(HTTP_PORT), path, String(times)];
  return spawn('nsenter', [`--net=${client.netns.path}`, ...argv], { stdio: ['ignore', 'pipe', 'inherit'] });
}

/** From the answer to a write until the first request that is judged by it, in milliseconds. */
async function delaysOfChanges(scene: SidecarScene): Promise<readonly number[]> {
  const asking = asker(scene, '/changing', 0);
  const seen = { status: '', sinceMs: 0 };
  createInterface({ input: asking.stdout }).on('line', (line) => {
    const [atNs = '', status = ''] = line.split(' ');
    if (status !== seen.status) Object.assign(seen, { status, sinceMs: Number(BigInt(atNs) / 1000n) / 1000 });
  });
  await until(() => seen.status === '403', 'requests are denied');
  const delays: number[] = [];
  const policy = await scene.server.call('GET', `${POLICIES}/web`);
  const [rule] = policy.spec.ingress;
  for (let change = 0; change < CHANGES; change += 1) {
    const isOpen = change % 2 === 0;
    const paths = [{ prefix: '/items' }, ...(isOpen ? [{ exact: '/changing' }] : [])];
    const latest = await scene.server.call('GET', `${POLICIES}/web`);
    const ingress = [{ ...rule, http: { ...rule.http, paths } }];
    await scene.server.call('PUT', `${POLICIES}/web`, { body: { ...latest, spec: { ...policy.spec, ingress } } });
    const writtenMs = Number(process.hrtime.bigint() / 1000n) / 1000;
    await until(() => seen.status === (isOpen ? '200' : '403'), 'requests are judged by the change', 10_000, 1);
    delays.push(Math.max(0, seen.sinceMs - writtenMs));
  }
  asking.kill('SIGKILL');
  return delays;
}

/** Median of the ratios of the medians of rounds by turns. */
async function costOfAdd(scene: SidecarScene): Promise<number> {
  const other = (name: string): object =>
    policyOf(name, {
      selector: "app == 'other'",
      ingress: [{ action: 'Allow', protocol: 'TCP', http: { methods: ['GET'] } }],
    });
  const names = Array.from({ length: 20 }, (_, index) => `http-${String(index)}`);
  const ratios: number[] = [];
  let made = 0;
  const medianOfAdds = async (): Promise<number> => {
    await sleep(SETTLED_MS);
    const times: number[] = [];
    for (let pod = 0; pod < PODS; pod += 1) {
      made += 1;
      times.push((await scene.add(`added-${String(made)}`, { labels: { app: 'other' } })).addMs);
    }
    return quantile(times, 0.5);
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    const without = await medianOfAdds();
    for (const name of names) await scene.server.call('POST', POLICIES, { body: other(name) });
    ratios.push((await medianOfAdds()) / without);
    for (const name of names) await scene.server.call('DELETE', `${POLICIES}/${name}`);
  }
  return quantile(ratios, 0.5);
}
