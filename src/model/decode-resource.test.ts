import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { problemLine } from '../base/problem.ts';
import { decodeResource, decodeStoredResource } from './decode-resource.ts';
import { findKind, KINDS } from './kinds.ts';
import { API_VERSION } from './resource.ts';

function pool(spec: object, metadata: object = { name: 'green' }): object {
  return { apiVersion: API_VERSION, kind: 'IPPool', metadata, spec };
}

function problemsOf(raw: unknown): string[] {
  const decoded = decodeResource(raw);
  return 'problems' in decoded ? decoded.problems.map(problemLine) : [];
}

describe('an IP pool', () => {
  it('gets its defaults and a canonical CIDR [pool-cidr]', () => {
    expect(decodeResource(pool({ cidr: '10.1.0.0/16' }))).toEqual({
      resource: pool({
        cidr: '10.1.0.0/16',
        ipipMode: 'Never',
        vxlanMode: 'Never',
        natOutgoing: false,
        disabled: false,
        disableBGPExport: false,
        blockSize: 26,
        nodeSelector: 'all()',
        allowedUses: ['Workload', 'Tunnel'],
      }),
    });
    const v6 = decodeResource(pool({ cidr: 'FD00:0::/64' }));
    expect(v6).toMatchObject({ resource: { spec: { cidr: 'fd00::/64', blockSize: 122 } } });
  });

  it('keeps its name [pool-name]', () => {
    expect(decodeResource(pool({ cidr: '10.1.0.0/16' }))).toMatchObject({ resource: { metadata: { name: 'green' } } });
  });

  it.each([
    [{ name: 'Green' }, 'metadata.name: found "Green" (string), allowed is lower-case letters'],
    [{}, 'metadata.name: missing'],
    [{ name: 'a'.repeat(254) }, 'metadata.name: found'],
    [{ name: 'a', namespace: 'b' }, 'metadata.namespace: is not allowed'],
    [{ name: 'a', label: {} }, 'did you mean "labels"?'],
    [{ name: 'a', labels: { 'a/b/c': 'x' } }, 'metadata.labels'],
    [{ name: 'a', labels: { a: '-' } }, 'metadata.labels.a: found "-"'],
    [{ name: 'a', labels: { a: 1 } }, 'metadata.labels.a: found 1 (number), allowed is a string'],
    [{ name: 'a', generateName: 'b' }, 'metadata.generateName: is not supported'],
  ])('is refused with metadata %j [pool-name]', (metadata, text) => {
    expect(problemsOf(pool({ cidr: '10.1.0.0/16' }, metadata)).join('\n')).toContain(text);
  });

  it.each([
    [{}, 'spec.cidr: missing; needed is a CIDR'],
    [{ cidr: '10.0.0.1/24' }, 'here "10.0.0.0/24"'],
    [{ cidr: '10.0.0.0' }, 'allowed is a CIDR'],
    [{ cidr: '169.254.1.0/24' }, 'overlaps the link-local addresses'],
    [{ cidr: 'fe80::/64' }, 'overlaps the link-local addresses'],
    [{ cidr: '0.0.0.0/0' }, 'overlaps the unspecified addresses'],
    [{ cidr: '0.0.0.0/8' }, 'overlaps the unspecified addresses'],
    [{ cidr: '::/96' }, 'overlaps the unspecified addresses'],
    [{ cidr: '255.255.255.0/24' }, 'overlaps the broadcast addresses'],
    [{ cidr: '::ffff:a00:0/112' }, 'overlaps the IPv4-mapped addresses'],
    [{ cidr: '127.0.0.0/8' }, 'overlaps the loopback addresses'],
    [{ cidr: '239.0.0.0/8' }, 'overlaps the multicast addresses'],
    [{ cidr: '10.0.0.0/16', blockSize: 19 }, 'spec.blockSize: found 19'],
    [{ cidr: '10.0.0.0/16', blockSize: 33 }, 'from 23 to 32 for an IPv4 pool'],
    [{ cidr: 'fd00::/64', blockSize: 26 }, 'from 119 to 128 for an IPv6 pool'],
    [{ cidr: '10.0.0.0/28' }, 'a /26 block does not fit into 10.0.0.0/28'],
    [{ cidr: '10.0.0.0/16', cdir: 'x' }, 'did you mean "cidr"?'],
  ])('is refused with spec %j [pool-cidr]', (spec, text) => {
    expect(problemsOf(pool(spec)).join('\n')).toContain(text);
  });

  it('may be smaller than a block while it is disabled [pool-cidr]', () => {
    expect(problemsOf(pool({ cidr: '10.0.0.0/28', disabled: true }))).toEqual([]);
  });

  it.each([
    [{ cidr: '10.0.0.0/16', ipipMode: 'always' }, 'did you mean "Always"?'],
    [{ cidr: '10.0.0.0/16', ipipMode: 'Always', vxlanMode: 'Always' }, 'spec.vxlanMode: excludes ipipMode'],
    [{ cidr: 'fd00::/64', ipipMode: 'Always' }, 'allowed is "Never" for an IPv6 pool'],
    [{ cidr: '10.0.0.0/16', ipip: { enabled: true } }, 'spec.ipip: is not a known field'],
  ])('is refused with spec %j [pool-ipip]', (spec, text) => {
    expect(problemsOf(pool(spec)).join('\n')).toContain(text);
  });

  it('keeps its encapsulation mode [pool-ipip]', () => {
    const decoded = decodeResource(pool({ cidr: '10.0.0.0/16', ipipMode: 'CrossSubnet' }));
    expect(decoded).toMatchObject({ resource: { spec: { ipipMode: 'CrossSubnet', vxlanMode: 'Never' } } });
  });

  it('accepts only a boolean for natOutgoing [pool-nat]', () => {
    const decoded = decodeResource(pool({ cidr: '10.0.0.0/16', natOutgoing: true }));
    expect(decoded).toMatchObject({ resource: { spec: { natOutgoing: true } } });
    expect(problemsOf(pool({ cidr: '10.0.0.0/16', natOutgoing: 'true' }))[0]).toContain('write true without quotes');
    expect(problemsOf(pool({ cidr: '10.0.0.0/16', 'nat-outgoing': true }))[0]).toContain('did you mean "natOutgoing"?');
  });

  it('selects all nodes by default, and refuses an invalid selector [pool-selector]', () => {
    const decoded = decodeResource(pool({ cidr: '10.0.0.0/16', nodeSelector: '' }));
    expect(decoded).toMatchObject({ resource: { spec: { nodeSelector: 'all()' } } });
    const [line] = problemsOf(pool({ cidr: '10.0.0.0/16', nodeSelector: 'zone = "a"' }));
    expect(line).toContain('expected an operator');
    expect(line).toContain('at character 6');
  });

  it('accepts only known uses, each once', () => {
    expect(problemsOf(pool({ cidr: '10.0.0.0/16', allowedUses: [] }))[0]).toContain('at least one');
    expect(problemsOf(pool({ cidr: '10.0.0.0/16', allowedUses: ['Tunnel', 'Tunnel'] }))[0]).toContain('at most once');
    expect(problemsOf(pool({ cidr: '10.0.0.0/16', allowedUses: ['tunnel'] }))[0]).toContain('did you mean "Tunnel"?');
  });

  it('is refused with all its problems at once, in the order of their paths', () => {
    const raw = { apiVersion: 'v3', kind: 'ippool', metadata: { name: 'A' }, spec: { cidr: 1 } };
    const decoded = decodeResource(raw);
    expect('problems' in decoded ? decoded.problems.map(({ path }) => path) : []).toEqual([
      'apiVersion',
      'kind',
      'metadata.name',
    ]);
    expect(problemsOf(raw)[1]).toContain('did you mean "IPPool"?');
  });
});

describe('resources of other kinds', () => {
  it('convert reserved addresses to CIDRs', () => {
    const raw = {
      apiVersion: API_VERSION,
      kind: 'IPReservation',
      metadata: { name: 'r', creationTimestamp: null },
      spec: { reservedCIDRs: ['10.0.0.7', '10.1.0.0/24', 'FD00::1'] },
    };
    expect(decodeResource(raw)).toMatchObject({
      resource: { spec: { reservedCIDRs: ['10.0.0.7/32', '10.1.0.0/24', 'fd00::1/128'] } },
    });
  });

  it('allow one name only for the IPAM configuration', () => {
    const raw = { apiVersion: API_VERSION, kind: 'IPAMConfiguration', metadata: { name: 'defautl' }, spec: {} };
    expect(problemsOf(raw)).toEqual([
      'metadata.name: found "defautl" (string), allowed is "default" (did you mean "default"?)',
    ]);
  });

  it('read a node without a spec', () => {
    const raw = { apiVersion: API_VERSION, kind: 'Node', metadata: { name: 'n', labels: { zone: 'a' } } };
    expect(decodeResource(raw)).toEqual({ resource: { ...raw, spec: {} } });
  });

  it('never throw for arbitrary JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (raw) => {
        expect(decodeResource(raw)).toHaveProperty('problems');
        expect(typeof decodeStoredResource(raw)).toBe('string');
      }),
    );
  });
});

describe('a stored resource', () => {
  it('keeps fields of a newer release and gets its defaults', () => {
    const raw = { ...pool({ cidr: '10.0.0.0/16', fromTheFuture: 1 }), status: { x: 1 } };
    expect(decodeStoredResource(raw)).toMatchObject({
      status: { x: 1 },
      spec: { fromTheFuture: 1, blockSize: 26, nodeSelector: 'all()' },
    });
  });

  it('is refused with its problems when it is invalid', () => {
    expect(decodeStoredResource(pool({ cidr: 7 }))).toBe('spec.cidr: found 7 (number), allowed is a CIDR, as a string');
    expect(decodeStoredResource({ ...pool({ cidr: '10.0.0.0/8' }), kind: 'Pool' })).toContain('kind: found "Pool"');
  });
});

describe('kinds', () => {
  it.each(['IPPool', 'ippools', 'ipp', 'POOL'])('are found by %s', (word) => {
    expect(findKind(word)).toBe('IPPool');
  });

  it('have no short name in common', () => {
    const words = Object.values(KINDS).flatMap(({ plural, shortNames }) => [plural, ...shortNames]);
    expect(new Set(words).size).toBe(words.length);
    expect(findKind('widget')).toBeUndefined();
  });
});
