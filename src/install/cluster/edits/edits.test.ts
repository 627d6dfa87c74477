import { assert, property, subarray } from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../../../test/support/node.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { manifestObjects, RELEASE_MANIFESTS } from '../release-manifests.ts';
import { applyEdits } from './apply-edits.ts';
import { editLine } from './edit.ts';
import { canonical } from '../../../kube/objects/diff.ts';
import { findEdits } from './find-edits.ts';
import { reapplyEdits } from './like.ts';

const RELEASE = 'v3.27.0';
const ORCH = RELEASE_MANIFESTS[0];
const KV = RELEASE_MANIFESTS[3];

const copy = (objects: readonly unknown[]): Json[] => structuredClone(objects) as Json[];
const find = (objects: readonly Json[], kind: string, name: string): Json =>
  objects.find((object) => object.kind === kind && object.metadata.name === name);
const agentOf = (objects: readonly Json[]): Json =>
  find(objects, 'DaemonSet', 'netplug-node').spec.template.spec.containers[0];
const conflistOf = (objects: readonly Json[]): Json =>
  JSON.parse(find(objects, 'ConfigMap', 'netplug-config').data.conflist);

/** Edits that users make. */
const EDITS: readonly ((objects: Json[]) => void)[] = [
  (objects) => (agentOf(objects).image = 'registry.example:5000/mirror/netplug-node:v3.27.0'),
  (objects) => agentOf(objects).env.push({ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }),
  (objects) => (agentOf(objects).resources = { requests: { cpu: '250m' } }),
  (objects) => (find(objects, 'IPPool', 'default-ipv4').spec.cidr = '10.9.0.0/16'),
  (objects) => {
    const map = find(objects, 'ConfigMap', 'netplug-config');
    const list = JSON.parse(map.data.conflist);
    list.plugins[0].mtu = 1400;
    map.data.conflist = JSON.stringify(list);
  },
  (objects) =>
    (find(objects, 'DaemonSet', 'netplug-node').spec.template.spec.tolerations = [
      { key: 'a', operator: 'Exists', effect: 'NoSchedule' },
    ]),
  (objects) => (find(objects, 'Deployment', 'netplug-orch-controllers').spec.replicas = 3),
  (objects) =>
    find(objects, 'ClusterRole', 'netplug-viewer').rules.push({ apiGroups: ['x'], resources: ['y'], verbs: ['get'] }),
  (objects) =>
    objects.push({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'own', namespace: 'x' }, data: {} }),
  (objects) => objects.splice(objects.indexOf(find(objects, 'ClusterRole', 'netplug-admin')), 1),
];

const sortedTexts = (objects: readonly unknown[]): readonly string[] =>
  objects.map((object) => canonical(withParsedConflist(object))).sort();

function withParsedConflist(object: unknown): unknown {
  if (!isRecord(object) || object['kind'] !== 'ConfigMap' || !isRecord(object['data'])) return object;
  const { conflist } = object['data'];
  return {
    ...object,
    data: { ...object['data'], conflist: typeof conflist === 'string' ? JSON.parse(conflist) : 0 },
  };
}

describe('edits of a manifest', { timeout: 120_000 }, () => {
  it('finds none in the manifest of a release', () => {
    for (const kind of RELEASE_MANIFESTS) {
      const objects = manifestObjects(kind, { release: RELEASE });
      expect(findEdits(objects, copy(objects))).toEqual([]);
      expect(applyEdits(objects, []).objects).toEqual(objects);
    }
  });

  it('makes every combination of edits again in the manifest of the same release', () => {
    assert(
      property(subarray([...EDITS]), (chosen) => {
        const edited = copy(manifestObjects(ORCH, { release: RELEASE }));
        for (const edit of chosen) edit(edited);
        const { objects, refused, kind } = reapplyEdits(
          { edited, pristine: undefined },
          { wanted: {}, options: { release: RELEASE } },
        );
        expect(refused).toEqual([]);
        expect(kind).toMatchObject({ datastore: 'orch', variant: 'policy-and-networking' });
        expect(sortedTexts(objects)).toEqual(sortedTexts(edited));
      }),
      { numRuns: 15 },
    );
  });

  it('recognizes the manifest that was edited', () => {
    for (const kind of RELEASE_MANIFESTS) {
      const edited = copy(manifestObjects(kind, { release: RELEASE }));
      agentOf(edited).env.push({ name: 'X', value: 'y' });
      const found = reapplyEdits({ edited, pristine: undefined }, { wanted: {}, options: { release: RELEASE } });
      expect(found.kind).toMatchObject({ datastore: kind.datastore, variant: kind.variant });
      expect(found.kept.map(editLine)).toEqual([
        'DaemonSet netplug-system/netplug-node: spec.template.spec.containers[agent].env[X]: {"name":"X","value":"y"} (object) added',
      ]);
    }
  });

  it('keeps the registry of images, not the tag, and edits beside changes of another release [up-edits]', () => {
    const before = copy(manifestObjects(KV, { release: 'v3.26.0' }));
    const edited = copy(before);
    for (const object of edited) {
      for (const container of object.spec?.template?.spec?.containers ?? []) {
        container.image = container.image.replace('netplug.io', 'registry.example/netplug');
        for (const variable of container.env) if (variable.name === 'KV_ENDPOINTS') variable.value = 'https://e:2379';
      }
      if (object.kind === 'Secret') object.data = { 'ca.crt': 'YQ==', 'tls.crt': 'Yg==', 'tls.key': 'Yw==' };
    }
    for (const pristine of [before, undefined]) {
      const { objects, kept, refused } = reapplyEdits(
        { edited, pristine },
        { wanted: {}, options: { release: RELEASE } },
      );
      const agent = agentOf(objects as Json[]);
      expect(agent.image).toBe('registry.example/netplug/netplug-node:v3.27.0');
      expect(agent.env).toContainEqual({ name: 'KV_ENDPOINTS', value: 'https://e:2379' });
      expect(find(objects as Json[], 'Secret', 'netplug-kv-certificates').data['tls.key']).toBe('Yw==');
      expect(kept.map(editLine).join('\n')).not.toContain('Yw==');
      expect(kept.length).toBeGreaterThan(5);
      expect(pristine === undefined ? [] : refused).toEqual([]);
    }
  });

  it('reports what it cannot tell from a change of the release, and what the release has changed itself', () => {
    const before = copy(manifestObjects(ORCH, { release: 'v3.26.0' }));
    const edited = copy(before);
    agentOf(edited).command = ['netplug-agent', '--old'];
    const unclear = reapplyEdits({ edited, pristine: undefined }, { wanted: {}, options: { release: RELEASE } });
    expect(unclear.refused.map(({ edit, reason }) => `${editLine(edit)}: ${reason}`).join('\n')).toContain(
      'spec.template.spec.containers[agent].command: ["netplug-agent","--old"] (array) in place of ["netplug-agent"] (array): it may be',
    );
    agentOf(before).command = ['other'];
    const changed = reapplyEdits({ edited, pristine: before }, { wanted: {}, options: { release: RELEASE } });
    expect(changed.refused.map(({ reason }) => reason)).toEqual(['this release has changed the same value']);
  });

  it('leaves the conflist readable', () => {
    const edited = copy(manifestObjects(ORCH, { release: RELEASE }));
    EDITS[4]!(edited);
    const { objects } = reapplyEdits({ edited, pristine: undefined }, { wanted: {}, options: { release: RELEASE } });
    expect(conflistOf(objects as Json[]).plugins[0].mtu).toBe(1400);
    expect(find(objects as Json[], 'ConfigMap', 'netplug-config').data.conflist).toContain('\n  "plugins"');
  });
});
