import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import { decodeNetconf, inspectNetconf, type ReadAs } from './decode.ts';
import { CNI_VERSIONS, type Netconf } from './netconf.ts';

const BARE = { name: 'pods', type: 'netplug', ipam: { type: 'netplug-ipam' } };
const KV = { kv_endpoints: 'http://127.0.0.1:2379' };
const ENCRYPTED = { kv_endpoints: 'https://127.0.0.1:2379' };

function read(changes: object = {}, as: ReadAs = 'network'): Netconf {
  return decodeNetconf({ ...BARE, ...KV, ...changes }, as);
}

function endpointsOf(changes: object): unknown {
  const { datastore } = decodeNetconf({ ...BARE, ...changes }, 'network');
  return datastore.type === 'kvv3' ? datastore.connection.endpoints : undefined;
}

describe('a network configuration', () => {
  it('takes any string as its name [nc-name]', () => {
    expect(read({ name: 'any string, / really' }).name).toBe('any string, / really');
  });

  it('has a supported version of the CNI specification, 0.1.0 by default [nc-cniversion]', () => {
    expect(read().cniVersion).toBe('0.1.0');
    for (const cniVersion of CNI_VERSIONS) expect(read({ cniVersion }).cniVersion).toBe(cniVersion);
  });

  it('has type netplug, or any type when the address manager reads it [nc-type]', () => {
    expect(inspectNetconf({ ...BARE, type: 'ptp' }, 'network').problems).toHaveLength(1);
    const beside = { type: 'ptp', ipMasq: true, mtu: 'big', hairpinMode: 1, policy: 'theirs', kv_endpoint: 'http://a' };
    expect(read(beside, 'ipam')).toMatchObject({
      mtu: undefined,
      warnings: ['Unknown key kv_endpoint is ignored: did you mean "kv_endpoints"?'],
    });
  });

  it('has no node name by default [nc-nodename]', () => {
    expect(read().nodename).toBeUndefined();
    expect(read({ nodename: '' }).nodename).toBeUndefined();
    expect(read({ nodename: 'node-1' }).nodename).toBe('node-1');
  });

  it('uses the kv datastore by default [nc-datastore]', () => {
    expect(read().datastore.type).toBe('kvv3');
    const orch = read({ datastore_type: 'orch' });
    expect(orch.datastore.type).toBe('orch');
    expect(orch.needsOrchestrator.map(({ path }) => path)).toEqual(['datastore_type']);
    expect(orch.warnings).toEqual(['kv_endpoints has no effect with "datastore_type": "orch"']);
  });

  it('logs at INFO by default [nc-loglevel]', () => {
    expect(read().log.level).toBe('INFO');
    for (const level of ['ERROR', 'WARNING', 'INFO', 'DEBUG']) expect(read({ log_level: level }).log.level).toBe(level);
  });

  it('logs to no file without a path [nc-logpath]', () => {
    expect(read().log.filePath).toBeUndefined();
    expect(read({ log_file_path: '/var/log/x.log' }).log.filePath).toBe('/var/log/x.log');
  });

  it('rotates log files at 100 MB [nc-logsize]', () => {
    expect(read().log.fileMaxSizeMb).toBe(100);
    expect(read({ log_file_max_size: 1 }).log.fileMaxSizeMb).toBe(1);
  });

  it('removes rotated log files after 30 days [nc-logage]', () => {
    expect(read().log.fileMaxAgeDays).toBe(30);
    expect(read({ log_file_max_age: 7 }).log.fileMaxAgeDays).toBe(7);
  });

  it('keeps 10 rotated log files [nc-logcount]', () => {
    expect(read().log.fileMaxCount).toBe(10);
    expect(read({ log_file_max_count: 3 }).log.fileMaxCount).toBe(3);
  });

  it('must have an ipam section [nc-ipam]', () => {
    expect(inspectNetconf({ name: 'pods', type: 'netplug' }, 'network').problems).toMatchObject([{ path: 'ipam' }]);
  });

  it('leaves IP forwarding in containers off [nc-container]', () => {
    expect(read().allowIpForwarding).toBe(false);
    expect(read({ container_settings: { allow_ip_forwarding: true } }).allowIpForwarding).toBe(true);
  });

  it('has no readiness gates by default [nc-gates]', () => {
    expect(read().readinessGates).toEqual([]);
    const gates = ['http://localhost:9099/readiness', 'https://[::1]:9/'];
    expect(read({ readiness_gates: gates }).readinessGates).toEqual(gates);
  });

  it('may contain a file and a URL for the API of the orchestrator, and a node [nc-orch]', () => {
    const orch = { orchconfig: '/etc/orch.conf', orch_api_root: 'https://10.0.0.1:6443', node_name: 'node-1' };
    expect(inspectNetconf({ ...BARE, ...KV, orch }, 'network')).toMatchObject({ problems: [], warnings: [] });
  });

  it('has no policy type unless it is orch [nc-policy]', () => {
    expect(read()).toMatchObject({ policyType: undefined, needsOrchestrator: [] });
    const withPolicy = read({ policy: { type: 'orch' } });
    expect(withPolicy).toMatchObject({ policyType: 'orch', needsOrchestrator: [{ path: 'policy.type' }] });
  });

  it('lists no unmet need of the orchestrator when access is configured', () => {
    const orch = { orchconfig: '/etc/cni/net.d/netplug-kubeconfig' };
    const netconf = read({ datastore_type: 'orch', policy: { type: 'orch' }, orch });
    expect(netconf.needsOrchestrator).toEqual([]);
    expect(netconf.orch.orchconfig).toBe(orch.orchconfig);
  });

  it('has features off by default, and warns about those without effect [nc-features]', () => {
    expect(read().features).toEqual({ ipAddrsNoIpam: false, floatingIps: false });
    const both = read({ feature_control: { floating_ips: true, ip_addrs_no_ipam: true } });
    expect(both.features).toEqual({ ipAddrsNoIpam: true, floatingIps: true });
    expect(both.warnings.join()).toContain('floating_ips has no effect without policy.type');
  });

  it('gives links one queue by default [nc-queues]', () => {
    expect(read().numQueues).toBe(1);
    expect(read({ num_queues: 4 }).numQueues).toBe(4);
  });

  it('leaves the MTU to the kernel by default', () => {
    expect(read().mtu).toBeUndefined();
    expect(read({ mtu: 0 }).mtu).toBeUndefined();
    expect(read({ mtu: 1450 }).mtu).toBe(1450);
  });

  it('accepts keys of the standard and of runtimes, and warns about unknown keys', () => {
    const theirs = {
      prevResult: {},
      runtimeConfig: {},
      capabilities: { ips: true },
      args: null,
      dns: {},
      ipMasq: true,
    };
    expect(read({ ...theirs, 'cni.dev/anything': 1, cniVersions: ['1.0.0'] }).warnings).toEqual([]);
    expect(read({ of_another_program: 1 }).warnings).toEqual(['Unknown key of_another_program is ignored']);
  });
});

describe('the connection to a kv datastore', () => {
  it('takes endpoints from a list or from a domain, not both [kv-exclusive]', () => {
    expect(endpointsOf({ kv_endpoints: 'http://a:1 , https://b:2/' })).toEqual({
      from: 'list',
      urls: ['http://a:1', 'https://b:2'],
    });
    expect(endpointsOf({ kv_discovery_srv: 'example.org' })).toEqual({ from: 'srv', domain: 'example.org' });
    const both = inspectNetconf({ ...BARE, ...KV, kv_discovery_srv: 'example.org' }, 'network');
    expect(both.problems).toMatchObject([{ path: 'kv_discovery_srv' }]);
    const brokenToo = inspectNetconf({ ...BARE, kv_endpoints: 1, kv_discovery_srv: 'example.org' }, 'network');
    expect(brokenToo.problems.map(({ path }) => path)).toEqual(['kv_discovery_srv', 'kv_endpoints']);
  });

  it('uses the deprecated authority only without endpoints [kv-authority]', () => {
    expect(endpointsOf({})).toEqual({ from: 'list', urls: ['http://127.0.0.1:2379'] });
    expect(endpointsOf({ kv_authority: 'kv:4001' })).toEqual({ from: 'list', urls: ['http://kv:4001'] });
    expect(endpointsOf({ kv_endpoints: '', kv_authority: 'kv:4001' })).toMatchObject({ urls: ['http://kv:4001'] });
    expect(endpointsOf({ ...KV, kv_authority: 'kv:4001' })).toMatchObject({ urls: ['http://127.0.0.1:2379'] });
    expect(read({ kv_authority: 'kv:4001' }).warnings).toEqual([
      'kv_authority is deprecated and has no effect beside kv_endpoints; remove it',
    ]);
    expect(decodeNetconf({ ...BARE, kv_authority: 'kv:4001' }, 'network').warnings).toEqual([
      'kv_authority is deprecated; write kv_endpoints as "http://kv:4001" instead',
    ]);
  });

  it('uses the deprecated scheme with the authority, http by default [kv-scheme]', () => {
    expect(endpointsOf({ kv_scheme: 'https' })).toMatchObject({ urls: ['https://127.0.0.1:2379'] });
    expect(endpointsOf({ kv_scheme: 'https', kv_authority: '[::1]:1' })).toMatchObject({ urls: ['https://[::1]:1'] });
  });

  it('has a key and a certificate, or neither [kv-keycert]', () => {
    const files = { ...ENCRYPTED, kv_key_file: '/k', kv_cert_file: '/c', kv_ca_cert_file: '/ca' };
    expect(read(files).datastore).toMatchObject({ connection: { keyFile: '/k', certFile: '/c', caCertFile: '/ca' } });
    expect(read({ kv_key_file: '', kv_cert_file: '' }).datastore).toMatchObject({ connection: { keyFile: undefined } });
    expect(inspectNetconf({ ...BARE, ...ENCRYPTED, kv_key_file: '/k' }, 'network').problems).toHaveLength(1);
    const unreadable = { ...BARE, ...ENCRYPTED, kv_key_file: 5, kv_cert_file: '/c' };
    expect(inspectNetconf(unreadable, 'network').problems).toHaveLength(1);
  });

  const PAIR = { kv_key_file: '/k', kv_cert_file: '/c' };
  it.each([
    ['a plain endpoint', { kv_endpoints: 'http://a:1', ...PAIR }, 'kv_endpoints', 'https://a:1'],
    ['a CA file alone', { kv_endpoints: 'http://a:1', kv_ca_cert_file: '/ca' }, 'kv_endpoints', 'https://a:1'],
    ['one plain endpoint of two', { kv_endpoints: 'http://a:1,https://b:2', ...PAIR }, 'kv_endpoints', 'https://b:2'],
    ['a scheme in capitals', { kv_endpoints: 'HTTP://a:1', ...PAIR }, 'kv_endpoints', 'https://a:1'],
    ['no endpoint', PAIR, 'kv_endpoints', 'https://127.0.0.1:2379'],
    ['the deprecated authority', { kv_authority: 'a:1', ...PAIR }, 'kv_authority', 'https://a:1'],
    ['the deprecated scheme', { kv_authority: 'a:1', kv_scheme: 'http', ...PAIR }, 'kv_scheme', 'https://a:1'],
  ])('refuses TLS files beside %s', (_, keys, path, advised) => {
    const { problems, warnings } = inspectNetconf({ ...BARE, ...keys }, 'network');
    expect(problems).toMatchObject([{ path, code: 'netconf/invalid', hint: expect.stringContaining(advised) }]);
    expect(problems[0]?.message).toMatch(/is not encrypted, while kv_\w+_file.* ask for TLS/);
    // No fix may replace deprecated keys by a value that is refused.
    expect(warnings.flatMap(({ fix }) => fix ?? [])).toEqual([]);
  });

  it.each([
    ['plain endpoints without TLS files', { kv_endpoints: 'http://a:1,http://b:1' }],
    ['encrypted endpoints without TLS files', { kv_endpoints: 'https://a:1' }],
    ['encrypted endpoints with a CA file alone', { kv_endpoints: 'https://a:1', kv_ca_cert_file: '/ca' }],
    ['TLS files and a domain', { kv_discovery_srv: 'example.org', ...PAIR }],
    ['plain endpoints in keys without effect', { ...ENCRYPTED, ...PAIR, kv_scheme: 'http' }],
  ])('accepts %s', (_, keys) => {
    expect(inspectNetconf({ ...BARE, ...keys }, 'network').problems).toEqual([]);
  });

  it('warns about encrypted and plain endpoints in one list', () => {
    expect(read({ kv_endpoints: 'http://a:1,https://b:2' }).warnings).toEqual([
      expect.stringContaining('kv_endpoints mixes https with http'),
    ]);
  });
});

describe('the section ipam', () => {
  it('has the type netplug-ipam, host-local or another plugin [ipam-type]', () => {
    expect(read().ipam.type).toBe('netplug-ipam');
    expect(read({ ipam: { type: 'host-local', subnet: '10.0.0.0/24' } }).ipam.type).toBe('host-local');
    expect(read({ ipam: { type: 'static', whatever: 1 } }).ipam).toEqual({ type: 'other', plugin: 'static' });
  });

  it('assigns IPv4 unless assign_ipv4 is "false" [ipam-assign4]', () => {
    expect(read().ipam).toMatchObject({ v4: { assign: true } });
    const ipam = { type: 'netplug-ipam', assign_ipv4: 'false', assign_ipv6: 'true' };
    expect(read({ ipam }).ipam).toMatchObject({ v4: { assign: false }, v6: { assign: true } });
  });

  it('assigns IPv6 only when assign_ipv6 is "true" [ipam-assign6]', () => {
    expect(read().ipam).toMatchObject({ v6: { assign: false } });
    const ipam = { type: 'netplug-ipam', assign_ipv6: 'true' };
    expect(read({ ipam }).ipam).toMatchObject({ v4: { assign: true }, v6: { assign: true } });
  });

  it('uses all IPv4 pools by default [ipam-pools4]', () => {
    expect(read().ipam).toMatchObject({ v4: { pools: undefined } });
    expect(read({ ipam: { type: 'netplug-ipam', ipv4_pools: [] } }).ipam).toMatchObject({ v4: { pools: undefined } });
    const ipam = { type: 'netplug-ipam', ipv4_pools: ['blue', '10.1.0.0/16'] };
    expect(read({ ipam }).ipam).toMatchObject({
      v4: {
        pools: [
          { by: 'name', name: 'blue' },
          { by: 'cidr', cidr: parseCidr('10.1.0.0/16') },
        ],
      },
    });
  });

  it('respects IPv6 pools only when IPv6 is assigned [ipam-pools6]', () => {
    const ipam = { type: 'netplug-ipam', ipv6_pools: ['not/a/pool'] };
    expect(read({ ipam }).warnings).toEqual(['ipam.ipv6_pools has no effect: ipam.assign_ipv6 is "false"']);
    expect(inspectNetconf({ ...BARE, ipam: { ...ipam, assign_ipv6: 'true' } }, 'network').problems).toHaveLength(1);
    const sixes = { type: 'netplug-ipam', assign_ipv6: 'true', ipv6_pools: ['FD00::/64'] };
    expect(read({ ipam: sixes }).ipam).toMatchObject({ v6: { pools: [{ cidr: parseCidr('fd00::/64') }] } });
  });

  it('has ranges for host-local only [ipam-ranges]', () => {
    const range = { subnet: '10.0.0.0/24', rangeStart: '10.0.0.9', rangeEnd: '10.0.0.20', gateway: '10.0.9.1' };
    const ranges = [[range, { subnet: '10.0.1.0/24' }], [{ subnet: 'fd00::/64' }]];
    expect(read({ ipam: { type: 'host-local', ranges } }).ipam).toMatchObject({ podCidrPaths: [] });
    const pools = { type: 'netplug-ipam', ranges };
    expect(inspectNetconf({ ...BARE, ipam: pools }, 'network').problems).toMatchObject([{ path: 'ipam.ranges' }]);
  });

  it('distinguishes absent routes from an empty list [ipam-routes]', () => {
    const ipam = { type: 'host-local', subnet: '10.0.0.0/24' };
    expect(read({ ipam }).ipam).toMatchObject({ routes: undefined });
    expect(read({ ipam: { ...ipam, routes: [] } }).ipam).toMatchObject({ routes: [] });
    const routes = [{ dst: '10.0.0.0/8', gw: 'ignored' }, { dst: 'fd00::/8' }];
    expect(read({ ipam: { ...ipam, routes } }).ipam).toMatchObject({
      routes: [parseCidr('10.0.0.0/8'), parseCidr('fd00::/8')],
    });
  });

  it('lists the subnets that are pod CIDRs [hl-podcidr]', () => {
    const ranges = [[{ subnet: 'usePodCidr' }], [{ subnet: 'usePodCidrIPv6' }]];
    const paths = ['ipam.ranges[0][0].subnet', 'ipam.ranges[1][0].subnet'];
    const netconf = read({ ipam: { type: 'host-local', ranges } });
    expect(netconf.ipam).toMatchObject({ podCidrPaths: paths });
    expect(netconf.needsOrchestrator.map(({ path }) => path)).toEqual(paths);
    const short = read({ ipam: { type: 'host-local', subnet: 'usePodCidr' } });
    expect(short.ipam).toMatchObject({ podCidrPaths: ['ipam.subnet'] });
  });

  it('refuses pools with host-local and ignores its switches [hl-features]', () => {
    const ipam = { type: 'host-local', subnet: '10.0.0.0/24' };
    const { problems } = inspectNetconf({ ...BARE, ipam: { ...ipam, ipv4_pools: ['blue'] } }, 'network');
    expect(problems).toMatchObject([{ path: 'ipam.ipv4_pools' }]);
    const warnings = ['ipam.assign_ipv4 has no effect with host-local'];
    expect(read({ ipam: { ...ipam, assign_ipv4: 'true' } }).warnings).toEqual(warnings);
  });
});

describe('input of the runtime', () => {
  it('is read in any letter case, and runtimeConfig takes precedence over args', () => {
    const runtimeConfig = { IPs: ['10.1.2.3/24', 'fd00::1'], Mac: '0A:58:0a:00:00:01' };
    const { runtime } = read({ runtimeConfig, args: { cni: { ips: ['10.9.9.9'] } }, prevResult: { ips: [] } });
    expect(runtime.ips.map(formatAddress)).toEqual(['10.1.2.3', 'fd00::1']);
    expect(runtime).toMatchObject({ mac: '0a:58:0a:00:00:01', prevResult: { ips: [] } });
    expect(read({ args: { cni: { ips: ['10.9.9.9'] } } }).runtime.ips.map(formatAddress)).toEqual(['10.9.9.9']);
  });

  it('distinguishes an absent list of attachments from an empty one, and prefers the newer key', () => {
    const valid = 'cni.dev/valid-attachments';
    expect(read({ [valid]: null }).runtime.validAttachments).toBeUndefined();
    expect(read({ [valid]: [] }).runtime.validAttachments).toEqual([]);
    const newer = [{ containerID: 'a', ifname: 'eth0' }];
    const older = [{ containerID: 'b', ifname: 'eth0' }];
    expect(read({ [valid]: newer, 'cni.dev/attachments': older }).runtime.validAttachments).toEqual([
      { containerId: 'a', ifName: 'eth0' },
    ]);
    expect(read({ 'cni.dev/attachments': older }).runtime.validAttachments).toMatchObject([{ containerId: 'b' }]);
  });
});

describe('inspectNetconf', () => {
  it('never throws for arbitrary JSON', () => {
    const keys = fc.constantFrom(
      'name',
      'type',
      'ipam',
      'orch',
      'policy',
      'mtu',
      'runtimeConfig',
      'args',
      'kv_endpoints',
    );
    const ipam = fc.dictionary(fc.constantFrom('type', 'ranges', 'routes', 'subnet', 'ipv4_pools'), fc.jsonValue());
    const near = fc.tuple(fc.dictionary(keys, fc.jsonValue()), ipam, fc.constantFrom('netplug-ipam', 'host-local'));
    const tuned = near.map(([top, section, type]) => ({ ...BARE, ...top, ipam: { type, ...section } }));
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), tuned), fc.constantFrom('network', 'ipam'), (raw, as) => {
        const { netconf, problems } = inspectNetconf(raw, as);
        expect(netconf === undefined).toBe(problems.length > 0);
      }),
    );
  });

  it('returns problems in the order of their paths, of which the error shows at most 20', () => {
    const ipv4_pools = Array.from({ length: 25 }, () => 'Bad');
    const raw = { ...BARE, ipam: { type: 'netplug-ipam', ipv4_pools } };
    const { problems } = inspectNetconf(raw, 'network');
    expect(problems.map(({ path }) => path)).toEqual(ipv4_pools.map((_, index) => `ipam.ipv4_pools[${String(index)}]`));
    expect(() => decodeNetconf(raw, 'network')).toThrow(/25 problems\n(.*\n){20} {2}and 5 more$/);
  });

  it('reports an unsupported version among other problems as a broken configuration', () => {
    const raw = { ...BARE, cniVersion: '9', mtu: 'x' };
    expect(() => decodeNetconf(raw, 'network')).toThrow(expect.objectContaining({ code: 'netconf/invalid' }));
  });
});
