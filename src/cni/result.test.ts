import { describe, expect, it } from 'vitest';
import { CNI_VERSIONS } from '../config/netconf.ts';
import { type CniResult, parseResult, renderResult } from './result.ts';

const RESULT: CniResult = {
  interfaces: [
    { name: 'npl0', mac: 'ee:ee:ee:ee:ee:ee', mtu: 1450 },
    { name: 'eth0', mac: '0a:00:00:00:00:01', mtu: 1450, sandbox: '/run/netns/x' },
  ],
  ips: [
    { address: '10.0.0.5/32', gateway: '169.254.1.1', interface: 1 },
    { address: 'fd00::5/128', gateway: 'fe80::1', interface: 1 },
  ],
  routes: [
    { dst: '0.0.0.0/0', gw: '169.254.1.1' },
    { dst: '::/0', gw: 'fe80::1' },
  ],
  dns: { nameservers: ['10.1.0.1'] },
};

describe('a CNI result', () => {
  it('has one address per family and no interfaces in 0.1.0 and 0.2.0', () => {
    for (const version of ['0.1.0', '0.2.0'] as const) {
      expect(renderResult(RESULT, version)).toEqual({
        cniVersion: version,
        ip4: { ip: '10.0.0.5/32', gateway: '169.254.1.1', routes: [{ dst: '0.0.0.0/0', gw: '169.254.1.1' }] },
        ip6: { ip: 'fd00::5/128', gateway: 'fe80::1', routes: [{ dst: '::/0', gw: 'fe80::1' }] },
        dns: { nameservers: ['10.1.0.1'] },
      });
    }
  });

  it('has the family of each address in 0.3.0 to 0.4.0, but not from 1.0.0', () => {
    for (const version of ['0.3.0', '0.3.1', '0.4.0'] as const) {
      expect(renderResult(RESULT, version)['ips']).toEqual([
        { version: '4', ...RESULT.ips[0] },
        { version: '6', ...RESULT.ips[1] },
      ]);
    }
    for (const version of ['1.0.0', '1.1.0'] as const) expect(renderResult(RESULT, version)['ips']).toEqual(RESULT.ips);
  });

  it('has the MTU of interfaces from 1.1.0 only', () => {
    expect(renderResult(RESULT, '1.1.0')['interfaces']).toEqual(RESULT.interfaces);
    expect(JSON.stringify(renderResult(RESULT, '1.0.0'))).not.toContain('mtu');
  });

  it.each(CNI_VERSIONS)('keeps its addresses and routes when it is parsed in version %s', (version) => {
    const back = parseResult(renderResult(RESULT, version));
    expect(back?.ips.map(({ address }) => address)).toEqual(['10.0.0.5/32', 'fd00::5/128']);
    expect(back?.routes).toEqual(RESULT.routes);
  });

  it.each([undefined, null, 'text', [], { ips: [{ address: 'nonsense' }] }, { ip4: { ip: 5 } }])(
    'is not parsed from %j',
    (raw) => {
      expect(parseResult(raw)).toBeUndefined();
    },
  );
});
