import { describe, expect, it } from 'vitest';
import type { Backup } from './backup.ts';
import { doomedFilters, type RollbackMesh, rollbackMeshNotes } from './rollback-mesh.ts';

const FILTER = {
  apiVersion: 'networking.istio.io/v1alpha3',
  kind: 'EnvoyFilter',
  namespace: 'istio-system',
  name: 'netplug',
};
const INJECTOR = { namespace: 'istio-system', name: 'istio-sidecar-injector' };
const CANARY = { namespace: 'mesh', name: 'istio-sidecar-injector-canary' };
const MESH: RollbackMesh = {
  filters: [FILTER],
  foreign: [{ ...FILTER, namespace: 'shop', name: 'own' }],
  pods: new Map([['shop', 3]]),
  templates: [
    { ...INJECTOR, text: 'new' },
    { ...CANARY, text: 'new' },
  ],
  sidecars: [
    { kind: 'Deployment', namespace: 'shop', name: 'web', version: 'v3.27.0', newest: 'v3.27.1' },
    { kind: 'StatefulSet', namespace: 'shop', name: 'db', version: 'v3.27.0', newest: 'v3.27.0' },
    { kind: 'Rollout', namespace: 'shop', name: 'odd', version: 'v3.27.1', newest: 'v3.27.1' },
  ],
};
const backupOf = (from: string, text?: string): Backup => {
  const templates = text === undefined ? {} : { templates: [{ ...INJECTOR, text }] };
  return { header: { from, ...templates } } as unknown as Backup;
};

describe('a rollback to a release that serves sidecars', () => {
  const notes = rollbackMeshNotes(backupOf('v3.27.0', 'old'), MESH, '/backups/b');

  it('keeps the filter, and lists newer sidecars as hazards', () => {
    expect(doomedFilters(backupOf('v3.27.0'), MESH)).toEqual([]);
    expect(notes.filter((note) => !note.startsWith('left: '))).toEqual([
      'kept: EnvoyFilter istio-system/netplug: proxies go on asking',
      'hazard: netplug-sidecar v3.27.1 of Deployment shop/web is newer than agents of v3.27.0, with which it was not tried, so that rules with http may allow nothing: when the template is that of the backup, "kubectl rollout restart deployment/web -n shop"',
      'hazard: netplug-sidecar v3.27.1 of Rollout shop/odd is newer than agents of v3.27.0, with which it was not tried, so that rules with http may allow nothing: when the template is that of the backup, make its pods anew',
    ]);
  });

  it('names what puts the template of the backup back, and a template that the backup does not have', () => {
    expect(notes.filter((note) => note.startsWith('left: '))).toEqual([
      'left: template "netplug" of ConfigMap istio-system/istio-sidecar-injector, by which new pods get the newer sidecar: "netplugctl mesh template --mesh-namespace istio-system --backup /backups/b | kubectl apply -f -" puts that of the backup back',
      expect.stringMatching(/^left: .*mesh\/istio-sidecar-injector-canary, .*the backup has none/),
    ]);
  });

  it('says nothing of a template and of sidecars as they were', () => {
    const same = {
      ...MESH,
      filters: [],
      templates: [{ ...INJECTOR, text: 'old' }],
      sidecars: MESH.sidecars.slice(1, 2),
    };
    expect(rollbackMeshNotes(backupOf('v3.27.0', 'old'), same, '/b')).toEqual([]);
  });
});

it('a rollback to a release without them takes the filter away, and names the rest as a removal does', () => {
  expect(doomedFilters(backupOf('v3.26.4'), MESH)).toEqual([FILTER]);
  const notes = rollbackMeshNotes(backupOf('v3.26.4'), MESH, '/b');
  expect(notes).toEqual([
    expect.stringContaining('kubectl delete envoyfilter own -n shop'),
    expect.stringContaining('pods with netplug-sidecar in namespaces shop (3)'),
    expect.stringMatching(
      /^hazard: netplug-sidecar v3.27.1 of Deployment shop\/web.*kubectl edit deployment\/web -n shop/,
    ),
    expect.stringMatching(/^hazard: netplug-sidecar v3.27.0 of StatefulSet shop\/db/),
    expect.stringMatching(/^hazard: netplug-sidecar v3.27.1 of Rollout shop\/odd.*take it out of what makes its pods$/),
    expect.stringContaining('kubectl edit configmap istio-sidecar-injector -n istio-system'),
    expect.stringContaining('kubectl edit configmap istio-sidecar-injector-canary -n mesh'),
  ]);
});

it('a rollback from a release that is not known keeps the filter', () => {
  expect(doomedFilters(backupOf('unknown'), MESH)).toEqual([]);
});
