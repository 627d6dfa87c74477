import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expectCode } from './suites/datastore/bench.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { unversioned } from '../../src/datastore/stored-resource.ts';
import type { FieldOwnership, WrittenResource } from '../../src/datastore/resource-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { API_VERSION } from '../../src/model/resource.ts';
import type { Json } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const never = new AbortController().signal;
const BLUE = '/apis/netplug.io/v3/ippools/blue';

type Wish = Parameters<FieldOwnership['apply']>[0];

const written = (spec: object, metadata: object = {}): WrittenResource => ({
  apiVersion: API_VERSION,
  kind: 'IPPool',
  metadata: { name: 'blue', ...metadata },
  spec,
});

describe('applying fields in the API of the orchestrator', () => {
  let server: OrchApiServer;
  let store: Store;

  beforeAll(async () => {
    server = await startOrchApiServer();
    const path = await server.callerConfig('admin tool');
    store = openOrchStore({ from: 'file', path }, { manager: 'netplugctl' });
  });
  beforeEach(async () => server.empty());
  afterAll(async () => {
    for (const part of [store, server]) await part?.[Symbol.asyncDispose]();
  });

  const apply = async (resource: WrittenResource, more: Partial<Wish> = {}): Promise<AnyResource> => {
    const { fieldOwnership } = store;
    if (fieldOwnership === undefined) throw new Error('the store knows no owners of fields');
    return fieldOwnership.apply({ resource, manager: 'netplugctl', force: false, ...more }, never);
  };
  const blue = async (): Promise<Json> => server.call('GET', BLUE);
  const managers = async (): Promise<string[]> =>
    (await blue()).metadata.managedFields.map(
      ({ manager, operation }: Json) => `${String(manager)} ${String(operation)}`,
    );

  it('makes the resource of what was written and nothing else, and takes away what is left out later', async () => {
    const made = await apply(written({ cidr: '10.0.0.0/16', natOutgoing: true }, { labels: { rack: 'r1' } }));
    expect(made).toMatchObject({ kind: 'IPPool', spec: { cidr: '10.0.0.0/16', natOutgoing: true, blockSize: 26 } });
    const [entry] = (await blue()).metadata.managedFields;
    expect(entry).toMatchObject({ manager: 'netplugctl', operation: 'Apply' });
    expect(Object.keys(entry.fieldsV1['f:spec']).sort()).toEqual(['f:cidr', 'f:natOutgoing']);
    const changed = await apply(written({ cidr: '10.0.0.0/16', disabled: true }));
    expect(changed.metadata.uid).toBe(made.metadata.uid);
    const { spec, metadata } = await blue();
    // The API fills in what its schema says.
    expect(spec).toMatchObject({ cidr: '10.0.0.0/16', disabled: true, natOutgoing: false });
    expect(metadata.labels).toBeUndefined();
    const again = await apply(written({ cidr: '10.0.0.0/16', disabled: true }));
    expect(unversioned(again)).toEqual(unversioned(changed));
  });

  it('leaves what others have written, and names each field that both want', async () => {
    await apply(
      written({ cidr: '10.0.0.0/16', disabled: true, nodeSelector: 'zone == "a"' }, { labels: { rack: 'r1' } }),
      { manager: 'the team' },
    );
    await apply(written({ cidr: '10.0.0.0/16', natOutgoing: true }));
    expect((await blue()).spec).toMatchObject({ cidr: '10.0.0.0/16', disabled: true, natOutgoing: true });
    const wish = written(
      { cidr: '10.0.0.0/16', disabled: false, nodeSelector: 'zone == "b"' },
      { labels: { rack: 'r2' } },
    );
    const { message, facts } = await expectCode('resource/field-conflict', apply(wish));
    expect(message).toMatch(/^Cannot apply IPPool "blue": other managers own some of its fields: /);
    for (const field of ['spec.nodeSelector', 'spec.disabled', 'metadata.labels.rack']) {
      expect(message).toContain(`${field} ("the team")`);
    }
    expect(facts).toMatchObject({ kind: 'IPPool', name: 'blue', owners: ['the team', 'the team', 'the team'] });
    expect((await blue()).spec.nodeSelector).toBe('zone == "a"');
    await apply(wish, { force: true });
    expect(await blue()).toMatchObject({
      metadata: { labels: { rack: 'r2' } },
      spec: { nodeSelector: 'zone == "b"', disabled: false },
    });
    await expectCode(
      'resource/field-conflict',
      apply(written({ cidr: '10.0.0.0/16', nodeSelector: 'zone == "a"' }), { manager: 'the team' }),
    );
  });

  it('takes over what the same manager has created or updated, and nothing of others with it', async () => {
    const made = await apply(written({ cidr: '10.0.0.0/16' }), { mode: 'dry-run' });
    await store.createResource(made, never);
    expect(await managers()).toEqual(['netplugctl Update']);
    await apply(written({ cidr: '10.0.0.0/16', nodeSelector: 'zone == "a"' }));
    expect((await blue()).spec).toMatchObject({ nodeSelector: 'zone == "a"', natOutgoing: false });
    await server.kubectl('patch', 'ippool', 'blue', '--type=merge', '--patch={"spec":{"disabled":true}}');
    const { facts } = await expectCode(
      'resource/field-conflict',
      apply(written({ cidr: '10.0.0.0/16', nodeSelector: 'zone == "b"', disabled: false })),
    );
    expect(facts).toMatchObject({ fields: ['spec.disabled'], owners: ['kubectl-patch'] });
    expect((await blue()).spec).toMatchObject({ nodeSelector: 'zone == "a"', disabled: true });
  });

  it('reports in a dry run what an apply would write or what refuses it, and changes nothing', async () => {
    const shown = await apply(written({ cidr: '10.0.0.0/16' }), { mode: 'dry-run' });
    expect(shown.spec).toMatchObject({ cidr: '10.0.0.0/16' });
    await server.call('GET', BLUE, { besides: [404] }).then(({ code }: Json) => expect(code).toBe(404));
    await apply(written({ cidr: '10.0.0.0/16', natOutgoing: true }), { manager: 'the team' });
    const before = await blue();
    const wish = written({ cidr: '10.0.0.0/16', natOutgoing: false });
    await expectCode('resource/field-conflict', apply(wish, { mode: 'dry-run' }));
    await apply(wish, { mode: 'dry-run', force: true });
    expect(await blue()).toEqual(before);
  });

  it('insists on a version that the file names', async () => {
    const { metadata } = await apply(written({ cidr: '10.0.0.0/16' }));
    const at = { resourceVersion: metadata.resourceVersion };
    await apply(written({ cidr: '10.0.0.0/16', natOutgoing: true }, at));
    await expectCode('resource/changed', apply(written({ cidr: '10.0.0.0/16', disabled: true }, at)));
    expect((await blue()).spec).toMatchObject({ natOutgoing: true });
  });

  it('says what the API itself finds wrong, and of nodes whose they are', async () => {
    const wrong = await expectCode('resource/invalid', apply(written({ cidr: 7 })));
    expect(wrong.message).toMatch(/^Cannot write IPPool "blue": the API refuses it: .*spec\.cidr/);
    const node: WrittenResource = { apiVersion: API_VERSION, kind: 'Node', metadata: { name: 'n1' }, spec: {} };
    await expectCode('resource/not-writable', apply(node));
  });

  it('goes into the namespace that is named', async () => {
    await server.putNamespace('shop');
    const set = { apiVersion: API_VERSION, kind: 'NetworkSet', spec: { nets: ['10.0.0.0/16'] } } as const;
    const named = await apply({ ...set, metadata: { name: 'blue', namespace: 'shop' } });
    const other = await apply({ ...set, metadata: { name: 'blue' } });
    expect([named.metadata.namespace, other.metadata.namespace]).toEqual(['shop', 'default']);
    expect((await store.listResources('NetworkSet', never)).resources).toEqual([other, named]);
  });

  it('leaves every label with one owner when 64 writers apply at once', async () => {
    await apply(written({ cidr: '10.0.0.0/16' }), { manager: 'm' });
    await Promise.all(
      Array.from({ length: 64 }, async (_, index) => {
        const label = `l${String(index % 8)}`;
        const labels = { [label]: 'x' };
        return apply(written({ cidr: '10.0.0.0/16' }, { labels }), { manager: `m-${label}` });
      }),
    );
    const labels = Array.from({ length: 8 }, (_, index) => `l${String(index)}`);
    expect(Object.keys((await blue()).metadata.labels).sort()).toEqual(labels);
    expect((await managers()).sort()).toEqual(
      ['m', ...labels.map((label) => `m-${label}`)].map((each) => `${each} Apply`),
    );
  });

  it('takes over what the same manager has created at the same moment', async () => {
    await store.createResource(await apply(written({ cidr: '10.0.0.0/16' }), { mode: 'dry-run' }), never);
    const selectors = Array.from({ length: 4 }, (_, index) => `zone == "${String(index + 1)}"`);
    await Promise.all(selectors.map(async (nodeSelector) => apply(written({ cidr: '10.0.0.0/16', nodeSelector }))));
    expect(selectors).toContain((await blue()).spec.nodeSelector);
  });
});
