import { describe, expect, it } from 'vitest';
import { NetplugError } from '../base/errors.ts';
import { chooseApi, chooseConnection, findConnection } from './choose-connection.ts';
import type { Datastore } from './connection.ts';
import type { ConnectionFacts, ConnectionUse } from './connection-facts.ts';

const HOME = '/home/me/.kube/config';
const NO_ORCH = { orchconfig: undefined, apiRoot: undefined, nodeName: undefined };
const KV = (url: string): Datastore => ({
  type: 'kvv3',
  connection: {
    endpoints: { from: 'list', urls: [url] },
    keyFile: undefined,
    certFile: undefined,
    caCertFile: undefined,
  },
});
const NODE_API: Datastore = { type: 'orch', orch: { ...NO_ORCH, orchconfig: '/etc/cni/net.d/netplug-kubeconfig' } };

/** A machine on which nothing names a datastore. */
const NOTHING: ConnectionFacts = {
  flags: { file: undefined, context: undefined },
  config: undefined,
  netconf: undefined,
  env: {},
  node: { folder: '/etc/cni/net.d', netconf: undefined, unreadable: [] },
  hasAccount: false,
  homeFile: { path: HOME, exists: false },
};

/** Each source alone, in the order of precedence. */
const SOURCES: readonly (readonly [string, Partial<ConnectionFacts>])[] = [
  ['--config "ctl.yaml"', { config: { file: 'ctl.yaml', raw: { kv_endpoints: 'http://config:1' } } }],
  ['--kubeconfig "k"', { flags: { file: 'k', context: undefined } }],
  ['KV_ENDPOINTS', { env: { KV_ENDPOINTS: 'http://variable:1' } }],
  ['--netconf "net.conf"', { netconf: { file: 'net.conf', datastore: KV('http://netconf:1') } }],
  ['KUBECONFIG "/k1"', { env: { KUBECONFIG: '/k1' } }],
  [
    'the network configuration of this node "/etc/cni/net.d/10-netplug.conflist"',
    {
      node: {
        folder: '/etc/cni/net.d',
        netconf: { file: '/etc/cni/net.d/10-netplug.conflist', datastore: KV('http://node:1') },
        unreadable: [],
      },
    },
  ],
  ['the service account of this pod', { hasAccount: true }],
  [`the default kubeconfig "${HOME}"`, { homeFile: { path: HOME, exists: true } }],
];
const factsOfRow = (index: number): Partial<ConnectionFacts> => SOURCES[index]?.[1] ?? {};
const PAIRS = SOURCES.flatMap(([name, facts], index) =>
  SOURCES.slice(index + 1).map(([below, others]) => [name, below, facts, others] as const),
);

const factsOf = (...parts: readonly Partial<ConnectionFacts>[]): ConnectionFacts => ({
  ...Object.assign({}, NOTHING, ...parts),
  env: Object.assign({}, ...parts.map(({ env = {} }) => env)),
});
const fromOf = (facts: ConnectionFacts, use?: ConnectionUse): string => chooseConnection(facts, use).origin.from;
const orchOf = (facts: ConnectionFacts): unknown => {
  const { datastore } = chooseConnection(facts);
  return datastore.type === 'orch' ? datastore.orch : datastore.type;
};
const env = (vars: Record<string, string>): Partial<ConnectionFacts> => ({ env: vars });

describe('the connection of netplugctl', () => {
  it.each(SOURCES)('is that of %s where nothing else names a datastore [ctl-env]', (name, facts) => {
    expect(fromOf(factsOf(facts))).toBe(name);
  });

  it.each(PAIRS)('is that of %s rather than that of %s [ctl-env]', (name, _below, facts, others) => {
    expect(fromOf(factsOf(others, facts))).toBe(name);
  });

  it('says which sources did not apply, for the source that it uses', () => {
    const home = chooseConnection(factsOf({ homeFile: { path: HOME, exists: true } }));
    expect(home.origin.why).toBe(
      'no flag and no variable of netplugctl names a datastore, KUBECONFIG is not set, "/etc/cni/net.d" has no network configuration of netplug, and no service account of a pod is mounted',
    );
    expect(chooseConnection(factsOf(env({ KV_ENDPOINTS: 'http://a:1' }))).origin.why).toBe('set in the environment');
    const flags = { file: 'k', context: undefined };
    expect(chooseConnection(factsOf({ flags })).origin.why).toBe('given on the command line');
  });

  it('is refused where nothing names a datastore, with everything that was looked at', () => {
    const unreadable = ['/etc/cni/net.d/10-netplug.conflist'];
    const facts = factsOf({ homeFile: undefined, node: { ...NOTHING.node, unreadable } }, env({ SUDO_USER: 'me' }));
    expect(() => chooseConnection(facts)).toThrowError(
      expect.objectContaining({
        code: 'store/config-invalid',
        message:
          'Cannot find the datastore: no flag and no variable of netplugctl names a datastore, KUBECONFIG is not set, "/etc/cni/net.d" has no network configuration of netplug that this user can read (/etc/cni/net.d/10-netplug.conflist), no service account of a pod is mounted, and HOME is not set',
        hint: 'Name a kubeconfig with --kubeconfig FILE or KUBECONFIG, or etcd with KV_ENDPOINTS. sudo drops variables: write them behind it, as in "sudo env KUBECONFIG=FILE netplugctl"',
      }),
    );
  });

  it('passes over the credentials of the node for objects of the cluster, which only an administrator changes', () => {
    const [node, home] = [factsOfRow(5), factsOfRow(7)];
    expect(fromOf(factsOf(node, home), 'cluster')).toBe(`the default kubeconfig "${HOME}"`);
    expect(() => chooseConnection(factsOf(node), 'cluster')).toThrowError('Cannot find the datastore');
  });

  it('passes over the kubeconfigs of kubectl for the records of this node', () => {
    const [kubectl, node, pod, home] = [factsOfRow(4), factsOfRow(5), factsOfRow(6), factsOfRow(7)];
    expect(findConnection(factsOf(kubectl, node, pod, home), 'this-node')?.datastore).toMatchObject(
      KV('http://node:1'),
    );
    expect(findConnection(factsOf(kubectl, pod, home), 'this-node')).toBeUndefined();
  });

  it('refuses an invalid network configuration of the node instead of using the next source', () => {
    const datastore = new NetplugError('netconf/invalid', 'Cannot use it: mtu: found 5', { hint: 'Correct it' });
    const netconf = { file: '/n', datastore };
    const facts = factsOf({ node: { ...NOTHING.node, netconf }, homeFile: { path: HOME, exists: true } });
    expect(() => chooseConnection(facts)).toThrowError(
      expect.objectContaining({
        code: 'netconf/invalid',
        message: expect.stringMatching(
          /^Using the network .* "\/n" \(.* KUBECONFIG is not set\): .*found 5$/,
        ) as string,
        hint: 'Correct it. To use another datastore, name it with --kubeconfig FILE or KV_ENDPOINTS',
      }),
    );
  });

  it('names the credentials of an administrator for what those of the node may not do', () => {
    const netconf = { file: '/etc/cni/net.d/10-netplug.conflist', datastore: NODE_API };
    const node = { ...NOTHING.node, netconf };
    const advice = (facts: Partial<ConnectionFacts>): unknown => chooseConnection(factsOf(facts)).origin.ifRefused;
    expect(advice({ node })).toMatch(/administrator: --kubeconfig FILE, or KUBECONFIG$/);
    expect(advice({ node, homeFile: { path: HOME, exists: true } })).toMatch(`--kubeconfig ${HOME}, or KUBECONFIG`);
    expect(advice(factsOfRow(5))).toMatch(/KV_ENDPOINTS with KV_CA_CERT_FILE/);
    expect(advice(factsOfRow(4))).toBeUndefined();
  });
});

describe('KUBECONFIG', () => {
  const kubeconfig = { paths: ['/k1', 'k2'], namedBy: 'KUBECONFIG', ifMissing: 'skip', context: undefined };

  it('is a list of files; empty and repeated entries count for nothing [ctl-env]', () => {
    expect(orchOf(factsOf(env({ KUBECONFIG: ':/k1::k2:/k1:', KV_ENDPOINTS: '' })))).toMatchObject({ kubeconfig });
    expect(() => chooseConnection(factsOf(env({ KUBECONFIG: '::' })))).toThrowError('KUBECONFIG is not set');
  });

  it('gives DATASTORE_TYPE=orch without access its access, before the node, the pod and ~/.kube/config', () => {
    const type = env({ DATASTORE_TYPE: 'orch' });
    const node = { node: { ...NOTHING.node, netconf: { file: '/n', datastore: NODE_API } } };
    const [home, pod] = [{ homeFile: { path: HOME, exists: true } }, { hasAccount: true }];
    expect(fromOf(factsOf(type, env({ KUBECONFIG: '/k1' }), node, pod, home))).toBe(
      'DATASTORE_TYPE with KUBECONFIG "/k1"',
    );
    expect(orchOf(factsOf(type, node, pod, home))).toMatchObject({ orchconfig: '/etc/cni/net.d/netplug-kubeconfig' });
    expect(orchOf(factsOf(type, pod, home))).not.toHaveProperty('kubeconfig');
    expect(orchOf(factsOf(type, home))).toMatchObject({ kubeconfig: { paths: [HOME] } });
    expect(() => chooseConnection(factsOf(type))).toThrowError(
      expect.objectContaining({ code: 'netconf/needs-orchestrator' }),
    );
  });
});

describe('the variables of netplugctl', () => {
  it.each<[Record<string, string>, object]>([
    [{ ORCHCONFIG: '/own' }, { orchconfig: '/own' }],
    [{ ORCH_API_ROOT: 'http://a:1' }, { apiRoot: 'http://a:1' }],
    [{ DATASTORE_TYPE: 'orch', ORCHCONFIG: '/own', KV_ENDPOINTS: 'http://a:1' }, { orchconfig: '/own' }],
  ])('name the API of the orchestrator: %o', (own, access) => {
    expect(orchOf(factsOf(env({ ...own, KUBECONFIG: '/k1' })))).toMatchObject(access);
  });

  it('name etcd at the default address only where they name the type kvv3 [kv-authority]', () => {
    const { datastore, warnings } = chooseConnection(factsOf(env({ DATASTORE_TYPE: 'kvv3' })));
    expect(datastore).toMatchObject(KV('http://127.0.0.1:2379'));
    expect(warnings).toEqual(['No kv_endpoints are given; "http://127.0.0.1:2379" is used']);
  });

  it('are not even decoded beside --kubeconfig or --context', () => {
    const vars = { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: 'no url', ORCHCONFIG: 'relative' };
    const of = (file: string | undefined, context: string): unknown =>
      orchOf(factsOf({ flags: { file, context } }, env(vars)));
    expect(of('a:b', 'prod')).toMatchObject({ kubeconfig: { paths: ['a:b'], context: 'prod' } });
    expect(of(undefined, 'prod')).toMatchObject({ kubeconfig: { paths: ['relative'], context: 'prod' } });
  });
});

describe('--context', () => {
  const flags = { file: undefined, context: 'prod' };
  const paths = (...parts: Partial<ConnectionFacts>[]): unknown => orchOf(factsOf({ flags }, ...parts));

  it('chooses from ORCHCONFIG, else KUBECONFIG, else ~/.kube/config', () => {
    const [list, home] = [env({ KUBECONFIG: '/k1:k2' }), { homeFile: { path: HOME, exists: true } }];
    const kubeconfig = (...files: string[]): object => ({ kubeconfig: { paths: files, context: 'prod' } });
    expect(paths(env({ ORCHCONFIG: '/own' }), list, home)).toMatchObject(kubeconfig('/own'));
    expect(paths(list, home)).toMatchObject(kubeconfig('/k1', 'k2'));
    expect(paths(home, env({ KV_ENDPOINTS: 'http://a:1' }))).toMatchObject(kubeconfig(HOME));
  });

  it('is refused where no kubeconfig exists', () => {
    expect(() => paths({ hasAccount: true })).toThrowError(
      expect.objectContaining({
        code: 'store/config-invalid',
        message: expect.stringContaining('there is no kubeconfig with context "prod"') as string,
        hint: 'Set KUBECONFIG, or name the kubeconfig with --kubeconfig FILE',
      }),
    );
  });
});

describe('--config', () => {
  it('names the API of the orchestrator by a kubeconfig alone, and nothing when it is empty', () => {
    expect(orchOf(factsOf({ config: { file: 'c', raw: { orch: { orchconfig: '/k' } } } }))).toMatchObject({
      orchconfig: '/k',
    });
    expect(() => chooseConnection(factsOf({ config: { file: 'c', raw: {} } }))).toThrowError(
      'Cannot use file "c": it names no datastore',
    );
  });
});

describe('access to the API server beside records in etcd', () => {
  it('follows the same order: flags, variables, KUBECONFIG, pod, ~/.kube/config', () => {
    const parts: readonly (readonly [string, Partial<ConnectionFacts>])[] = [
      ['--kubeconfig "k"', { flags: { file: 'k', context: undefined } }],
      ['ORCHCONFIG', env({ ORCHCONFIG: '/own' })],
      ['KUBECONFIG "/k1"', env({ KUBECONFIG: '/k1' })],
      ['the service account of this pod', { hasAccount: true }],
      [`the default kubeconfig "${HOME}"`, { homeFile: { path: HOME, exists: true } }],
    ];
    for (const [index, [from]] of parts.entries()) {
      const facts = factsOf(env({ KV_ENDPOINTS: 'http://a:1' }), ...parts.slice(index).map(([, each]) => each));
      expect(chooseApi(facts).origin?.from).toBe(from);
    }
    expect(() => chooseApi(NOTHING)).toThrowError(expect.objectContaining({ code: 'netconf/needs-orchestrator' }));
  });
});
