import { describe, expect, it } from 'vitest';
import { keptFamilies, withChanges } from './keep-settings.ts';

const [FOUR, SIX] = [
  { cidr: '10.1.0.0/16', encapsulation: 'None' },
  { cidr: 'fd00:1::/48', name: 'six', natOutgoing: 'Enabled' },
] as const;
const NAMED = { cidr: '10.9.0.0/16' };
const operator = { method: 'operator', registry: undefined, pools: [NAMED] } as const;

describe('settings that a repeated installation keeps', () => {
  it('are those of the address family that --pool does not name', () => {
    const dual = { calicoNetwork: { mtu: 1400, ipPools: [FOUR, SIX] } };
    expect(withChanges(dual, operator, { pools: [] })).toEqual({
      calicoNetwork: { mtu: 1400, ipPools: [NAMED, SIX] },
    });
    // The pools of a manifest are not known, and those that exist are left alone.
    const manifest = { ...operator, method: 'manifest' } as const;
    expect(withChanges(dual, manifest, { pools: [] }).calicoNetwork?.ipPools).toEqual([NAMED]);
    expect(keptFamilies(dual, [4])).toEqual([4, 6]);
    expect(keptFamilies({ calicoNetwork: { ipPools: [SIX] } }, [6])).toEqual([6]);
    expect(keptFamilies({}, [4])).toEqual([4]);
  });

  it('are refused with --pool when only the cluster has pools of the other address family', () => {
    const both = { pools: [{ name: 'six', cidr: SIX.cidr }] };
    expect(() => withChanges({}, operator, both)).toThrow(
      'Cannot use --pool 10.9.0.0/16: pods also have addresses of "six" (fd00:1::/48)',
    );
    expect(withChanges({}, { ...operator, pools: [NAMED, SIX] }, both).calicoNetwork?.ipPools).toEqual([NAMED, SIX]);
    expect(withChanges({}, operator, { pools: [{ name: 'four', cidr: FOUR.cidr }] }).calicoNetwork?.ipPools).toEqual([
      NAMED,
    ]);
  });

  it('are all that the command line does not set', () => {
    const spec = { registry: 'a.example', controlPlaneReplicas: 3, calicoNetwork: { ipPools: [FOUR] } };
    const nothing = { method: 'operator', registry: undefined, pools: undefined } as const;
    expect(withChanges(spec, nothing, { pools: [] })).toEqual(spec);
    expect(withChanges(spec, { ...nothing, registry: 'b.example' }, { pools: [] })).toEqual({
      ...spec,
      registry: 'b.example',
    });
    expect(withChanges({}, nothing, { pools: [] })).toEqual({});
  });
});
