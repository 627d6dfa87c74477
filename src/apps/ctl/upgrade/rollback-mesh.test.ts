import { describe, expect, it } from 'vitest';
import { injectionTemplate } from '../../../mesh/injection-template.ts';
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
const template = (image: string, mesh = '1.28.1'): string => injectionTemplate({ mesh, image, pullSecrets: [] });
const IMAGE = 'netplug.io/netplug-sidecar';
const [OLDER, NEWER] = [template(`${IMAGE}:v3.27.0`), template(`${IMAGE}:v3.27.1`)];
const MESH: RollbackMesh = {
  filters: [FILTER],
  foreign: [{ ...FILTER, namespace: 'shop', name: 'own' }],
  pods: new Map([['shop', 3]]),
  templates: [
    { ...INJECTOR, text: NEWER },
    { ...CANARY, text: NEWER },
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
  const notes = rollbackMeshNotes(backupOf('v3.27.0', OLDER), MESH, '/backups/b');

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
      'left: template "netplug" of ConfigMap istio-system/istio-sidecar-injector, by which new pods get sidecar v3.27.1: "netplugctl mesh template --mesh-namespace istio-system --backup /backups/b | kubectl apply -f -" puts that of the backup back',
      expect.stringMatching(/^left: .*mesh\/istio-sidecar-injector-canary, .*the backup has none/),
    ]);
  });

  it.each([
    [
      'its image is that of the release, for another version of the mesh',
      template(`${IMAGE}:v3.27.0`, '1.29.0'),
      OLDER,
    ],
    ['it names no release and is that of the backup', template(`${IMAGE}@sha256:0`), template(`${IMAGE}@sha256:0`)],
  ])('says nothing of a template when %s', (_, text, before) => {
    const mesh = { ...MESH, filters: [], sidecars: [], templates: [{ ...INJECTOR, text }] };
    expect(rollbackMeshNotes(backupOf('v3.27.0', before), mesh, '/b')).toEqual([]);
  });

  it.each([
    ['get a sidecar of unknown release: "netplugctl', 'it names no release', template(`${IMAGE}@sha256:0`), OLDER],
    ['that of the backup is the same', 'it was newer before as well', NEWER, NEWER],
    ['whether the backup has one is not known', 'the backup could not read it', NEWER, undefined],
  ])('says "%s" of a template when %s', (what, _, text, before) => {
    const mesh = { ...MESH, filters: [], sidecars: [], templates: [{ ...INJECTOR, text }] };
    expect(rollbackMeshNotes(backupOf('v3.27.0', before), mesh, '/b')).toEqual([expect.stringContaining(what)]);
  });

  it('says nothing of a template and of sidecars as they were', () => {
    const same = {
      ...MESH,
      filters: [],
      templates: [{ ...INJECTOR, text: OLDER }],
      sidecars: MESH.sidecars.slice(1, 2),
    };
    expect(rollbackMeshNotes(backupOf('v3.27.0', OLDER), same, '/b')).toEqual([]);
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
