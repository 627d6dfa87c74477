// Findings of the doctor about feature switches on a node, with a real API server.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCtl } from '../support/ctl-datastores.ts';
import type { Json } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';

const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let folder: string;
let viewer: string;

beforeAll(async () => {
  server = scope.use(await startOrchApiServer());
  folder = await mkdtemp(join(tmpdir(), 'netplug-doctor-'));
  scope.defer(async () => rm(folder, { recursive: true, force: true }));
  viewer = await server.callerConfig('viewer tool');
  const plugin = {
    type: 'netplug',
    datastore_type: 'orch',
    orch: { orchconfig: await server.callerConfig('plugin') },
    policy: { type: 'orch' },
    feature_control: { ip_addrs_no_ipam: true, floating_ips: true },
    ipam: { type: 'netplug-ipam' },
  };
  const conflist = { cniVersion: '1.0.0', name: 'k8s-pod-network', plugins: [plugin] };
  await writeFile(join(folder, '10-netplug.conflist'), JSON.stringify(conflist));
});
afterAll(async () => scope.disposeAsync());

interface Diagnosis {
  readonly findings: readonly { readonly id: string; readonly severity: string; readonly found: string }[];
  readonly areas: readonly { readonly area: string; readonly measured: readonly string[] }[];
  readonly leftOut: readonly { readonly area: string; readonly why: string }[];
}

async function doctor(...flags: readonly string[]): Promise<Diagnosis> {
  const { stdout, stderr } = await runCtl([
    'doctor',
    ...flags,
    '--conf-dir',
    folder,
    '--bin-dir',
    folder,
    '-o',
    'json',
  ]);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as Diagnosis;
}

const admissionOf = ({ findings }: Diagnosis): Diagnosis['findings'] =>
  findings.filter(({ id }) => id.startsWith('admission/'));

describe('the doctor, on a node whose configuration enables annotations', () => {
  it('reports that the account of the plugin cannot list policies, and continues', async () => {
    expect(admissionOf(await doctor('--node'))).toEqual([
      expect.objectContaining({
        id: 'admission/unknown',
        severity: 'note',
        found: expect.stringMatching(/"system:serviceaccount:netplug-system:netplug-cni" cannot list/) as string,
      }),
    ]);
  });

  it('notes which records the account of the plugin cannot list, without an error of the datastore', async () => {
    const { findings, leftOut } = await doctor();
    const ofDatastore = findings.filter(({ id }) => id.startsWith('datastore/'));
    expect(ofDatastore).toMatchObject([{ id: 'datastore/unlisted', severity: 'note' }]);
    expect(leftOut).toContainEqual({ area: 'pools', why: 'the caller may not list the records' });
  });

  it('warns about each switch until a policy of the cluster denies it, then names the policy', async () => {
    const look = async (): Promise<Diagnosis> => doctor('--node', '--kubeconfig', viewer);
    const expected = ['ip_addrs_no_ipam', 'floating_ips'].map((name) =>
      expect.objectContaining({ id: 'admission/unrestricted', found: expect.stringContaining(name) as string }),
    );
    expect(admissionOf(await look())).toEqual(expected);
    const manifest = await readFile(join(import.meta.dirname, '../../manifests/admission.yaml'), 'utf8');
    await server.apply(manifest.replaceAll('validationActions: [Deny]', 'validationActions: [Audit]'));
    expect(admissionOf(await look())).toEqual(expected);
    await server.apply(manifest);
    const measured = ({ areas }: Diagnosis): Json => areas.find(({ area }) => area === 'admission')?.measured;
    let last: Diagnosis | undefined;
    await until(async () => admissionOf((last = await look())).length === 0, 'the policies are found', 60_000, 250);
    expect(measured(last!)).toEqual(['netplug-address-annotations']);
  });
});
