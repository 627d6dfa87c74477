import { describe, expect, it } from 'vitest';
import { lintNetconf } from '../config/lint-conflist.ts';
import { type ConflistOptions, renderConflist } from './render-conflist.ts';
import { renderKubeconfig } from './render-kubeconfig.ts';

const BASE: ConflistOptions = {
  name: 'k8s-pod-network',
  datastore: {
    type: 'kvv3',
    connection: {
      endpoints: { from: 'list', urls: ['https://a:2379', 'https://b:2379'] },
      keyFile: '/etc/k',
      certFile: '/etc/c',
      caCertFile: '/etc/ca',
    },
  },
  orchAccess: { by: 'none' },
  mtu: undefined,
  assignIpv6: false,
  logFilePath: '/var/log/netplug/cni/cni.log',
  chained: ['portmap', 'bandwidth'],
  policy: 'none',
};

describe('the conflist of netplugctl node install', () => {
  it('contains all plugins by default, and passes lint', () => {
    const conflist = renderConflist(BASE);
    expect(conflist).toEqual({
      cniVersion: '1.0.0',
      cniVersions: ['0.3.1', '0.4.0', '1.0.0', '1.1.0'],
      name: 'k8s-pod-network',
      plugins: [
        {
          type: 'netplug',
          datastore_type: 'kvv3',
          kv_endpoints: 'https://a:2379,https://b:2379',
          kv_key_file: '/etc/k',
          kv_cert_file: '/etc/c',
          kv_ca_cert_file: '/etc/ca',
          log_level: 'INFO',
          log_file_path: '/var/log/netplug/cni/cni.log',
          ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'false' },
        },
        { type: 'portmap', snat: true, capabilities: { portMappings: true } },
        { type: 'bandwidth', capabilities: { bandwidth: true } },
      ],
    });
    expect(lintNetconf({ ...conflist })).toEqual([]);
  });

  it('omits options that are switched off', () => {
    const conflist = renderConflist({ ...BASE, logFilePath: undefined, chained: [], mtu: 1400, assignIpv6: true });
    expect(conflist).toMatchObject({
      plugins: [{ type: 'netplug', mtu: 1400, ipam: { assign_ipv6: 'true' } }],
    });
    expect(JSON.stringify(conflist)).not.toMatch(/log_file_path|portmap|bandwidth|policy|"orch"/);
  });

  it('contains etcd discovery, and the access to the Kubernetes API', () => {
    const connection = {
      endpoints: { from: 'srv', domain: 'example.org' },
      keyFile: undefined,
      certFile: undefined,
      caCertFile: undefined,
    } as const;
    const first = (more: Partial<ConflistOptions>): unknown => {
      const { plugins } = renderConflist({ ...BASE, ...more }) as { plugins: unknown[] };
      return plugins[0];
    };
    expect(first({ datastore: { type: 'kvv3', connection } })).toMatchObject({ kv_discovery_srv: 'example.org' });
    expect(
      first({
        datastore: { type: 'orch', orch: NO_ORCH },
        orchAccess: { by: 'file', path: '/etc/kube' },
        policy: 'orch',
      }),
    ).toMatchObject({ datastore_type: 'orch', orch: { orchconfig: '/etc/kube' }, policy: { type: 'orch' } });
    expect(first({ orchAccess: { by: 'url', url: 'http://a:8080' } })).toMatchObject({
      orch: { orch_api_root: 'http://a:8080' },
    });
  });
});

const NO_ORCH = { orchconfig: undefined, apiRoot: undefined, nodeName: undefined };

describe('the kubeconfig of netplugctl node install', () => {
  it('names files of the host, and embeds credentials without a file', () => {
    const server = 'https://10.0.0.1:6443';
    expect(renderKubeconfig({ server, caPem: 'PEM', user: { by: 'token', token: 't' } })).toEqual({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'cluster', cluster: { server, 'certificate-authority-data': 'UEVN' } }],
      users: [{ name: 'netplug', user: { token: 't' } }],
      contexts: [{ name: 'netplug', context: { cluster: 'cluster', user: 'netplug' } }],
      'current-context': 'netplug',
    });
    expect(renderKubeconfig({ server, caPem: undefined, user: { by: 'token-file', path: '/t' } })).toMatchObject({
      clusters: [{ cluster: { server } }],
      users: [{ user: { tokenFile: '/t' } }],
    });
    const user = { by: 'certificate', certFile: '/c', keyFile: '/k' } as const;
    expect(renderKubeconfig({ server, caPem: undefined, user })).toMatchObject({
      users: [{ user: { 'client-certificate': '/c', 'client-key': '/k' } }],
    });
  });
});
