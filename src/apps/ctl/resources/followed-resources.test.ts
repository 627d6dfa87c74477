import { describe, expect, it } from 'vitest';
import type { ResourceChange } from '../../../cache/resource-view.ts';
import { decodeStoredResource } from '../../../model/decode-resource.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { FollowedResources } from './followed-resources.ts';
import { eventRenderer } from './output/render-events.ts';

function pool(name: string, cidr: string, labels: Record<string, string> = {}): AnyResource {
  const raw = { apiVersion: 'netplug.io/v3', kind: 'IPPool', metadata: { name, labels }, spec: { cidr } };
  return decodeStoredResource(raw) as AnyResource;
}

const all = (...resources: readonly AnyResource[]): ResourceChange =>
  ({ kind: 'all', resources, problems: [] }) as never;
const put = (resource: AnyResource): ResourceChange => ({ kind: 'put', resource });
const gone = (name: string): ResourceChange => ({ kind: 'deleted', which: { kind: 'IPPool', name } });

describe('followed resources', () => {
  it('are reported once each, also when the watch restarts', () => {
    const followed = new FollowedResources(() => true);
    const told = (change: ResourceChange): string[] =>
      followed.events(change).map(({ type, resource }) => `${type} ${resource.metadata.name}`);
    expect(told(all(pool('a', '10.0.0.0/16'), pool('b', '10.1.0.0/16')))).toEqual(['ADDED a', 'ADDED b']);
    expect(told(put(pool('a', '10.0.0.0/16', { x: 'y' })))).toEqual(['MODIFIED a']);
    expect(told(gone('b'))).toEqual(['DELETED b']);
    expect(told(gone('b'))).toEqual([]);
    expect(told(all(pool('a', '10.0.0.0/16', { x: 'y' }), pool('c', '10.2.0.0/16')))).toEqual(['ADDED c']);
    expect(told(all(pool('c', '10.2.0.0/16')))).toEqual(['DELETED a']);
  });

  it('come and go with what is wanted of them', () => {
    const followed = new FollowedResources(({ metadata }) => metadata.labels?.['x'] === 'y');
    expect(followed.events(all(pool('a', '10.0.0.0/16')))).toEqual([]);
    expect(followed.events(put(pool('a', '10.0.0.0/16', { x: 'y' })))).toMatchObject([{ type: 'ADDED' }]);
    expect(followed.events(put(pool('a', '10.0.0.0/16')))).toMatchObject([{ type: 'DELETED' }]);
  });
});

describe('a table of events', () => {
  it('has titles once, and columns that stay as wide as they have become', () => {
    const render = eventRenderer('IPPool', {
      output: { form: 'table' },
      headers: true,
      showLabels: false,
    });
    const first = render([{ type: 'ADDED', resource: pool('a-long-name', '10.0.0.0/16') }]);
    const second = render([{ type: 'MODIFIED', resource: pool('b', '10.1.0.0/16') }]);
    expect(first + second).toBe(
      [
        'EVENT     NAME         CIDR         SELECTOR  UNUSABLE\n',
        'ADDED     a-long-name  10.0.0.0/16  all()\n',
        'MODIFIED  b            10.1.0.0/16  all()\n',
      ].join(''),
    );
  });
});
