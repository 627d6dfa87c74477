import { describe, expect, it } from 'vitest';
import { readEtcdPages } from './etcd-facts.ts';

const AT = Date.parse('2026-01-01T00:00:00Z');
const PAGES = {
  version: '{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}',
  health: '{"health":"true"}',
  metrics: '# HELP x\netcd_mvcc_db_total_size_in_bytes 24576\netcd_server_quota_backend_bytes 2.147483648e+09\n',
  exchange: { sentMs: AT, receivedMs: AT + 100, date: 'Thu, 01 Jan 2026 00:00:00 GMT' },
};

describe('the pages of etcd', () => {
  it('tell version, size, quota and clock', () => {
    expect(readEtcdPages(PAGES)).toMatchObject({
      server: 'etcd 3.4.23',
      sizeBytes: 24_576,
      quotaBytes: 2_147_483_648,
      alarms: [],
      skewMs: 0,
    });
  });

  it('tell that it is not well', () => {
    const { alarms } = readEtcdPages({ ...PAGES, health: '{"health":"false","reason":"ALARM NOSPACE"}' });
    expect(alarms).toEqual(['etcd calls itself unhealthy: ALARM NOSPACE']);
    expect(readEtcdPages({ ...PAGES, health: '{"health":"false"}' }).alarms).toHaveLength(1);
  });

  it('may be missing', () => {
    const report = readEtcdPages({
      version: '404',
      health: '',
      metrics: '',
      exchange: { sentMs: AT, receivedMs: AT, date: undefined },
    });
    expect(report).toMatchObject({ server: 'etcd of unknown version', alarms: [] });
    expect(report).not.toHaveProperty('quotaBytes');
    expect(report).not.toHaveProperty('skewMs');
  });
});
