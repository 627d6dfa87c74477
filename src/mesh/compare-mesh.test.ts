import { describe, expect, it } from 'vitest';
import { compareFilter, asksSidecar } from './compare-filter.ts';
import { compareTemplate } from './compare-template.ts';
import { envoyFilter } from './envoy-filter.ts';
import { injectionTemplate, withTemplate } from './injection-template.ts';

const OPTIONS = { mesh: '1.28.1', image: 'registry.test/netplug-sidecar:v3.27.0', pullSecrets: [] };
const CONFIG = 'policy: enabled\ntemplates:\n  sidecar: "spec: {}"\n';
const own = withTemplate(CONFIG, injectionTemplate(OPTIONS));

describe('the template of an injector', () => {
  it.each([
    ['current', own, {}],
    ['missing', CONFIG, {}],
    ['older', own.replaceAll('v3.27.0', 'v3.26.4'), { release: 'v3.26.4' }],
    ['newer', own.replaceAll('v3.27.0', 'v3.28.0'), { release: 'v3.28.0' }],
    ['other', own.replace('registry.test', 'mirror.test'), {}],
    ['other', own.replace('(printf "%t" .NativeSidecars)', '"false"'), {}],
    ['unreadable', 'templates: [', { why: expect.stringContaining('it is no YAML') as string }],
  ])('is %s', (kind, config, more) => {
    expect(compareTemplate(config, OPTIONS)).toEqual({ kind, ...more });
  });

  it('is not judged in a mesh whose version has none', () => {
    expect(compareTemplate(own, { ...OPTIONS, mesh: '1.20.0' })).toMatchObject({ kind: 'unreadable' });
  });
});

describe('a filter of the mesh', () => {
  const { spec } = JSON.parse(JSON.stringify(envoyFilter())) as { readonly spec: object };
  const edited = (from: string, to: string): unknown => JSON.parse(JSON.stringify(spec).replace(from, to));
  const open = edited('"transport_api_version"', '"failure_mode_allow":true,"transport_api_version"');

  it('is current, changed, or of a user', () => {
    expect(compareFilter('netplug', spec)).toBe('current');
    expect(compareFilter('netplug', edited('0.5s', '30s'))).toBe('changed');
    expect(compareFilter('own', spec)).toBe('foreign');
  });

  it('fails open when one of its checks does, whatever its name', () => {
    expect([compareFilter('netplug', open), compareFilter('own', open)]).toEqual(['fails-open', 'fails-open']);
    expect(compareFilter('netplug', edited('"transport_api_version"', '"failure_mode_allow":false,"x"'))).toBe(
      'changed',
    );
    // A check of another program, in the same object.
    const other = { applyTo: 'HTTP_FILTER', patch: { value: { failure_mode_allow: true } } };
    const { configPatches } = spec as { readonly configPatches: readonly object[] };
    expect(compareFilter('own', { configPatches: [...configPatches, other] })).toBe('foreign');
  });

  it('asks the sidecar when it names its cluster', () => {
    expect([spec, {}, undefined].map(asksSidecar)).toEqual([true, false, false]);
  });
});
