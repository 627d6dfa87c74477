import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ensureIpv6Forwarding, switchOnIpv6Forwarding } from './host-forwarding.ts';

/** A folder like /proc/sys/net/ipv6/conf, and a reader of its files. */
function settings(files: Readonly<Record<string, string>>): Disposable & { conf: string; read(path: string): string } {
  const conf = mkdtempSync(join(tmpdir(), 'netplug-conf-'));
  for (const [path, value] of Object.entries(files)) {
    mkdirSync(join(conf, path, '..'), { recursive: true });
    writeFileSync(join(conf, path), `${value}\n`);
  }
  return {
    conf,
    read: (path) => readFileSync(join(conf, path), 'utf8').trim(),
    [Symbol.dispose]: () => {
      rmSync(conf, { recursive: true });
    },
  };
}

const before617 = {
  'all/forwarding': '0',
  'all/accept_ra': '1',
  'default/accept_ra': '1',
  'uplink/accept_ra': '1',
  'static/accept_ra': '0',
  'npl1/accept_ra': '1',
};

describe('IPv6 forwarding of the host', () => {
  it('is enabled for the whole host on an older kernel, and keeps router advertisements accepted', () => {
    using host = settings(before617);
    ensureIpv6Forwarding('npl1', host);
    expect(host.read('all/forwarding')).toBe('1');
    const listening = ['default', 'uplink', 'static', 'npl1', 'all'].map((name) => host.read(`${name}/accept_ra`));
    expect(listening).toEqual(['2', '2', '0', '1', '1']);
  });

  it('is unchanged for the host when the link has force_forwarding', () => {
    using host = settings({ ...before617, 'npl1/force_forwarding': '1' });
    ensureIpv6Forwarding('npl1', host);
    expect([host.read('all/forwarding'), host.read('uplink/accept_ra')]).toEqual(['0', '1']);
  });

  it('is enabled for the whole host on request, and reports the change once', () => {
    using host = settings({ ...before617, 'npl1/force_forwarding': '1' });
    expect(switchOnIpv6Forwarding(host)).toBe(true);
    expect([host.read('all/forwarding'), host.read('uplink/accept_ra')]).toEqual(['1', '2']);
    expect(switchOnIpv6Forwarding(host)).toBe(false);
  });

  it('changes nothing when it is already enabled', () => {
    using host = settings({ ...before617, 'all/forwarding': '1' });
    ensureIpv6Forwarding('npl1', host);
    expect(host.read('uplink/accept_ra')).toBe('1');
  });
});
