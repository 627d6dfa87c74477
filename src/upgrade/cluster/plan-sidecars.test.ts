import { describe, expect, it } from 'vitest';
import type { Manifest } from '../../model/manifest.ts';
import { findSidecarRefusal, planSidecars, type SidecarFacts } from './plan-sidecars.ts';
import type { SidecarWorkload } from './snapshot.ts';

const [OLD, NEW] = ['v3.26.4', 'v3.27.0'];
const SOUND: SidecarFacts = {
  sidecars: [],
  workloads: new Map(),
  templates: [{ configMap: 'istio-system/istio-sidecar-injector', image: `r.example/netplug-sidecar:${NEW}@sha256:0` }],
  agents: [{ node: 'a', release: NEW }],
};

function factsOf(kind: string, has: Partial<SidecarWorkload>, spec?: object): SidecarFacts {
  const workloads = new Map<string, Manifest>(spec === undefined ? [] : [[`${kind} shop/web`, { spec }]]);
  return { ...SOUND, workloads, sidecars: [{ kind, namespace: 'shop', name: 'web', ...has }] };
}

/** Returns what is restarted, and what is left to the user. */
function textsOf(facts: SidecarFacts): readonly (readonly string[])[] {
  const { stages } = planSidecars(facts, NEW, ({ workload }) => `restart ${workload.name}`);
  return stages.map(({ steps }) => steps.map(({ text }) => text));
}

const OLDER = { version: OLD, newest: NEW };

describe('the restart of workloads with an older sidecar', () => {
  it.each<[string, SidecarFacts, readonly string[]]>([
    ['one that rolls', factsOf('Deployment', OLDER, {}), ['restart web']],
    ['one that cannot be read', factsOf('DaemonSet', OLDER), ['restart web']],
    [
      'one that ends all its pods first, and says so',
      factsOf('Deployment', OLDER, { strategy: { type: 'Recreate' } }),
      ['restart web (all its pods end before new ones start)'],
    ],
    [
      'no partition',
      factsOf('StatefulSet', OLDER, { updateStrategy: { rollingUpdate: { partition: 0 } } }),
      ['restart web'],
    ],
  ])('takes %s', (_, facts, restarts) => {
    expect(textsOf(facts)).toEqual([restarts, []]);
  });

  it.each<[string, SidecarFacts, RegExp]>([
    ['a Job', factsOf('Job', OLDER), /a Job is not restarted/],
    ['a ReplicaSet', factsOf('ReplicaSet', OLDER), /does not replace its pods/],
    ['a kind of another group', factsOf('StatefulSet.apps.kruise.io', OLDER), /how a StatefulSet\.apps\.kruise\.io is/],
    [
      'a kind with the name of a member of objects',
      factsOf('constructor', OLDER),
      /how a constructor is restarted is not/,
    ],
    ['a paused Deployment', factsOf('Deployment', OLDER, { paused: true }), /roll-outs are paused/],
    ['OnDelete', factsOf('DaemonSet', OLDER, { updateStrategy: { type: 'OnDelete' } }), /only when they are deleted/],
    [
      'a partition',
      factsOf('StatefulSet', OLDER, { updateStrategy: { rollingUpdate: { partition: 2 } } }),
      /leave pods below partition 2/,
    ],
    [
      'an image without a release',
      factsOf('Deployment', { unknownImage: 'x@sha256:0' }),
      /"x@sha256:0", names no release/,
    ],
  ])('leaves %s to the user, with the reason', (_, facts, why) => {
    expect(textsOf(facts)).toEqual([[], [expect.stringMatching(why)]]);
  });

  it('takes no workload of this release or a newer one', () => {
    expect(textsOf(factsOf('Deployment', { version: NEW, newest: 'v3.28.0' }))).toEqual([[], []]);
  });

  it('restarts one with pods of an older and of an unknown release', () => {
    expect(textsOf(factsOf('Deployment', { ...OLDER, unknownImage: 'x@sha256:0' }))).toEqual([['restart web'], []]);
  });

  it('says on which nodes the release of the agent is not known', () => {
    const agents = ['d', 'b', 'a', 'c'].map((node) => ({ node, release: undefined }));
    const facts = { ...factsOf('Deployment', OLDER), agents };
    expect(planSidecars(facts, NEW, () => '').notes).toEqual([
      'the release of the agent is not known on nodes a, b, c and 1 more: it must be v3.27.0 or later',
    ]);
    expect(findSidecarRefusal(facts, NEW)).toBeUndefined();
  });
});

describe('the refusal of restarts', () => {
  const [template] = SOUND.templates;

  it.each<[string, Partial<SidecarFacts>]>([
    ['agents and templates have the release', {}],
    ['agents are newer', { agents: [{ node: 'a', release: 'v3.28.0' }] }],
  ])('has no cause when %s', (_, more) => {
    expect(findSidecarRefusal({ ...SOUND, ...more }, NEW)).toBeUndefined();
  });

  it.each<[string, Partial<SidecarFacts>, string]>([
    [
      'older agents',
      {
        agents: [
          { node: 'b', release: OLD },
          { node: 'a', release: 'v3.20.0' },
        ],
      },
      `the agent has ${OLD}, v3.20.0 on nodes a, b, and ${NEW} or later is allowed`,
    ],
    ['the template that is missing', { templates: [] }, `no control plane of a mesh has the template "netplug"`],
    [
      'the one of several templates that is of another release',
      { templates: [template!, { configMap: 'mesh/istio-sidecar-injector-b', image: `x:v3.28.0` }] },
      `ConfigMap mesh/istio-sidecar-injector-b names "x:v3.28.0", and ${NEW} is wanted`,
    ],
    ['a template without an image', { templates: [{ configMap: 'a/b', image: '' }] }, 'names no image, and'],
  ])('names %s', (_, more, why) => {
    expect(findSidecarRefusal({ ...SOUND, ...more }, NEW)).toMatchObject({
      code: 'upgrade/refused',
      message: expect.stringContaining(why),
      hint: expect.stringMatching(/netplugctl (upgrade apply|mesh template)/),
    });
  });
});
