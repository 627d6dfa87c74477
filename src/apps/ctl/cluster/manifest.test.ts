import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import type { Json } from '../../../../test/support/node.ts';
import { makeTlsFolder } from '../../../../test/support/tls.ts';
import { type ManifestKind, manifestText, RELEASE_MANIFESTS } from '../../../install/cluster/release-manifests.ts';

const dir = mkdtempSync(join(tmpdir(), 'netplug-manifest-'));
afterAll(() => rmSync(dir, { recursive: true }));

const INSTALLATION_HEAD = 'apiVersion: netplug.io/v3\nkind: Installation\nmetadata:\n  name: default\n';
const ctl = async (...argv: string[]): Promise<Ran> =>
  callCtl(argv, { clock: { now: () => Date.now() } as never }).then((ran) => ran);
const print = async (...argv: string[]): Promise<string> => {
  const { status, out, err } = await ctl('install', 'manifest', ...argv);
  expect({ status, err }).toEqual({ status: 0, err: '' });
  return out;
};
const file = (text: string): string => {
  const path = join(dir, `${String(Math.random())}.yaml`);
  writeFileSync(path, text);
  return path;
};
/** Writes an Installation with that spec. */
const installation = (spec: object, more: object = {}): string =>
  file(
    JSON.stringify({ apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' }, spec, ...more }),
  );
const lint = async (text: string): Promise<{ status: number; lines: readonly string[] }> => {
  const path = file(text);
  const { status, out } = await ctl('lint', 'manifest', path);
  return { status, lines: out.replaceAll(`${path}:`, '').trim().split('\n') };
};

describe('netplugctl install manifest', () => {
  it('prints what a release has, for every datastore and variant', async () => {
    for (const kind of RELEASE_MANIFESTS) {
      const { datastore, variant, typha }: ManifestKind = kind;
      const spec = typha === undefined ? [] : ['--spec', installation({ typha: { mode: typha } })];
      expect(await print('--datastore', datastore, '--variant', variant, ...spec)).toBe(
        manifestText(kind, { release: 'v3.27.0' }),
      );
    }
    expect(await print()).toBe(manifestText(RELEASE_MANIFESTS[0], { release: 'v3.27.0' }));
  });

  it('sets registry, pools and endpoints', async () => {
    const text = await print('--registry', 'r.example:5000/n', '--pool', '10.1.0.0/16', '--pool', 'fd01::/48');
    expect(text).toContain('image: r.example:5000/n/netplug-node:v3.27.0');
    expect(text).toContain('cidr: 10.1.0.0/16');
    expect(text).toContain('cidr: fd01::/48');
    const kv = await print('--datastore', 'kvv3', '--kv-endpoints', 'http://10.0.0.1:2379');
    expect(kv).not.toMatch(/<[A-Z]|kind: Secret/);
    expect(kv.match(/http:\/\/10\.0\.0\.1:2379/g)).toHaveLength(3);
  });

  it('takes every setting from the Installation of --spec, also from standard input', async () => {
    const spec = {
      registry: 'r.example/n',
      calicoNetwork: {
        ipPools: [
          { cidr: '10.1.0.0/16', name: 'pods' },
          { cidr: 'fd01::/48', natOutgoing: 'Enabled' },
          { cidr: '10.2.0.0/24', name: 'floating', encapsulation: 'None', nodeSelector: '!all()' },
        ],
        floatingIPs: 'Enabled',
        mtu: 1400,
      },
      node: { env: { EXTRA: '1' } },
      controlPlaneReplicas: 3,
    };
    const path = installation(spec);
    const text = await print('--spec', path);
    const objects = parseAllDocuments(text).map((each) => each.toJS());
    const find = (kind: string): readonly Json[] => objects.filter((each) => each.kind === kind);
    expect(
      find('IPPool').map(({ metadata, spec: { cidr, nodeSelector } }) => [metadata.name, cidr, nodeSelector]),
    ).toEqual([
      ['pods', '10.1.0.0/16', 'all()'],
      ['default-ipv6', 'fd01::/48', 'all()'],
      ['floating', '10.2.0.0/24', '!all()'],
    ]);
    expect(JSON.parse(find('ConfigMap')[0].data.conflist).plugins[0]).toMatchObject({
      mtu: 1400,
      feature_control: { floating_ips: true },
      ipam: { assign_ipv4: 'true', assign_ipv6: 'true' },
    });
    expect(find('DaemonSet').map(({ metadata }) => metadata.name)).toEqual(['netplug-bird', 'netplug-node']);
    expect(find('Deployment')[0].spec.replicas).toBe(3);
    expect(text).toContain('image: r.example/n/netplug-node:v3.27.0');
    expect(text).toContain('name: EXTRA');
    const stdin = readFileSync(path, 'utf8');
    expect(await callCtl(['install', 'manifest', '--spec', '-'], { stdin })).toEqual({ status: 0, out: text, err: '' });
  });

  it('lets --pool and --registry set what the Installation leaves open', async () => {
    const path = installation({ calicoNetwork: { bgp: 'Enabled' } });
    const text = await print('--spec', path, '--registry', 'r.example', '--pool', '10.1.0.0/16');
    expect(text).toContain('image: r.example/netplug-node:v3.27.0');
    expect(text).toContain('cidr: 10.1.0.0/16');
    expect(text).toContain('name: netplug-bird');
  });

  it('refuses servers of the fan-out for records in etcd', async () => {
    const path = installation({ typha: { mode: 'Enabled' } });
    const { status, out, err } = await ctl('install', 'manifest', '--datastore', 'kvv3', '--spec', path);
    expect({ status, out }).toEqual({ status: 65, out: '' });
    expect(err).toContain('spec.typha.mode: found "Enabled", allowed is "Disabled" with records in etcd');
  });

  it('warns of fields of the Installation that have no effect, and names pools to create in etcd', async () => {
    const path = installation({
      deletionPolicy: 'Remove',
      calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16' }, { cidr: 'fd01::/48' }], bgp: 'Enabled' },
    });
    const endpoints = ['--kv-endpoints', 'http://10.0.0.1:2379'];
    const kv = await ctl('install', 'manifest', '--datastore', 'kvv3', ...endpoints, '--spec', path);
    expect(kv.status).toBe(0);
    expect(kv.err.trim().split('\n')).toEqual([
      'warning: spec.deletionPolicy has no effect with --method manifest, which installs no operator',
      'pools are records in etcd, create them with "netplugctl apply" once etcd runs: default-ipv4 (10.1.0.0/16), default-ipv6 (fd01::/48)',
    ]);
    expect(kv.out).toContain('"assign_ipv6": "true"');
    const second = await ctl('install', 'manifest', '--variant', 'second-plugin', '--spec', path);
    expect(second.err).toContain('warning: spec.calicoNetwork.bgp has no effect with --variant second-plugin\n');
  });

  it.each<[string, string, RegExp]>([
    [
      'another kind',
      JSON.stringify({ apiVersion: 'netplug.io/v3', kind: 'IPPool' }),
      /:1:\d+: kind: found "IPPool" \(string\), allowed is "Installation"/,
    ],
    ['no kind', 'calicoNetwork: {}\n', /:1:1: kind: missing; needed is "Installation"/],
    [
      'another name',
      INSTALLATION_HEAD.replace('default', 'mine'),
      /:4:3: metadata.name: found "mine".*allowed is "default"/,
    ],
    [
      'an unknown field',
      `${INSTALLATION_HEAD}spec:\n  calicoNetwork:\n    floatingIps: Enabled\n`,
      /:7:5: spec.calicoNetwork.floatingIps: is not a known field \(did you mean "floatingIPs"/,
    ],
    [
      'a value that is not allowed',
      `${INSTALLATION_HEAD}spec:\n  calicoNetwork:\n    mtu: 100\n`,
      /:7:5: spec.calicoNetwork.mtu: found 100/,
    ],
    [
      'a range that no pool can have',
      `${INSTALLATION_HEAD}spec:\n  calicoNetwork:\n    ipPools:\n      - cidr: 169.254.0.0/16\n`,
      /:8:9: spec.calicoNetwork.ipPools\[0\].cidr: .*link-local/,
    ],
    ['broken YAML', 'kind: [\n', /is not valid YAML/],
    ['a list', '- 1\n', /found \[1\] \(array\), allowed is an object/],
  ])('refuses an Installation with %s at its line', async (_, text, says) => {
    const { status, out, err } = await ctl('install', 'manifest', '--spec', file(text));
    expect({ status, out }).toEqual({ status: 65, out: '' });
    expect(err).toMatch(says);
    expect(err).toContain('Cannot use the Installation in "');
    expect(err).toContain('code: resource/invalid');
  });

  it('refuses files of --spec without exactly one document, and fields that a flag sets too', async () => {
    const refused = async (says: string, ...argv: string[]): Promise<void> => {
      const { status, out, err } = await ctl('install', 'manifest', ...argv);
      expect({ status, out }).toEqual({ status: 64, out: '' });
      expect(err).toContain(says);
    };
    await refused('it has no document', '--spec', file('# nothing\n'));
    await refused('it has 2 documents', '--spec', file(`${INSTALLATION_HEAD}---\n${INSTALLATION_HEAD}`));
    await refused('there is no such file or folder', '--spec', join(dir, 'none.yaml'));
    await refused('it is a folder', '--spec', dir);
    const full = installation({ registry: 'r.example', calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16' }] } });
    await refused('Cannot use --registry: the file of --spec has spec.registry', '--spec', full, '--registry', 'x');
    const pool = ['--pool', '10.2.0.0/16'];
    await refused('Cannot use --pool: the file of --spec has spec.calicoNetwork.ipPools', '--spec', full, ...pool);
    await refused('Apply the Installation once the operator runs', 'operator', '--spec', full);
  });

  it('prints the operator and the definitions', async () => {
    const kinds = (text: string): string[] => parseAllDocuments(text).map((each) => String(each.get('kind')));
    expect(kinds(await print('operator'))).toEqual(
      expect.arrayContaining(['CustomResourceDefinition', 'Namespace', 'Deployment']),
    );
    expect(new Set(kinds(await print('crds')))).toEqual(new Set(['CustomResourceDefinition']));
  });

  it.each([
    [['--datastore', 'kvv3', '--variant', 'policy-only'], 'there is no such manifest'],
    [['--pool', '10.0.0.0/8', '--pool', '10.1.0.0/16'], 'overlaps'],
    [['--pool', 'x'], '--pool 0'],
    [['--variant', 'policy-only', '--pool', '10.0.0.0/8'], 'another plugin assigns addresses'],
    [['--datastore', 'kvv3', '--pool', '10.0.0.0/8'], 'pools are records in etcd'],
    [['--kv-endpoints', 'http://a:1'], 'the datastore is orch'],
    [['--datastore', 'kvv3', '--kv-endpoints', 'a:1'], 'starts with http'],
    [['--pristine', 'x'], 'Give the edited manifest with --like'],
    [['operator', '--pool', '10.0.0.0/8'], 'Set it in the Installation'],
    [['something'], 'Allowed are network, operator, crds'],
    [['--registry', 'http://x'], 'Allowed is a host'],
  ])('refuses %j', async (argv, says) => {
    const { status, out, err } = await ctl('install', 'manifest', ...argv);
    expect({ status, out }).toEqual({ status: 64, out: '' });
    expect(err).toContain(says);
  });

  it('makes the edits of an earlier manifest again, and lists them [up-edits]', async () => {
    const edited = (await print()).replace('replicas: 2', 'replicas: 3').replace('192.168.0.0/16', '10.9.0.0/16');
    const { status, out, err } = await ctl('install', 'manifest', '--like', file(edited));
    expect(status).toBe(0);
    expect(out).toBe(edited);
    expect(err).toContain(
      'kept: IPPool default-ipv4: spec.cidr: "10.9.0.0/16" (string) in place of "192.168.0.0/16" (string)\n',
    );
    expect(err).toContain('kept: Deployment netplug-system/netplug-orch-controllers: spec.replicas: 3');
  });
});

describe('netplugctl lint manifest', () => {
  it('accepts the manifests of the release once their placeholders are filled', async () => {
    using tls = makeTlsFolder();
    const authority = tls.authority('etcd');
    const client = authority.issue('client', ['127.0.0.1']);
    const secrets: Record<string, string> = {
      BASE64_OF_CA_CERTIFICATE: authority.certFile,
      BASE64_OF_CLIENT_CERTIFICATE: client.certFile,
      BASE64_OF_CLIENT_KEY: client.keyFile,
    };
    for (const kind of RELEASE_MANIFESTS) {
      const text = manifestText(kind, { release: 'v3.27.0' })
        .replaceAll('<KV_ENDPOINTS>', 'https://10.0.0.1:2379,https://10.0.0.2:2379')
        .replaceAll('<INTERFACE_PREFIX>', 'eni')
        .replaceAll(/<(BASE64_\w+)>/g, (_, name: string) => readFileSync(secrets[name]!).toString('base64'));
      const { status, lines } = await lint(text);
      const real = lines.filter((line) => !/expires in \d+ days/.test(line));
      expect({ status, real }).toEqual({ status: 0, real: [expect.stringMatching(/^1 file: 0 errors/)] });
    }
  });

  it('reports each placeholder at its line', async () => {
    const { status, lines } = await lint(manifestText(RELEASE_MANIFESTS[3], { release: 'v3.27.0' }));
    expect(status).toBe(1);
    const found = lines.filter((line) => line.includes('found the placeholder'));
    expect(found).toHaveLength(6);
    for (const line of found) expect(line).toMatch(/^\d+:\d+: error: .*replace it with the value of your cluster/);
  });

  const orch = manifestText(RELEASE_MANIFESTS[0], { release: 'v3.27.0' });
  const kv = manifestText(RELEASE_MANIFESTS[3], { release: 'v3.27.0' }).replaceAll('<KV_ENDPOINTS>', 'https://a:2379');
  it.each([
    [
      'endpoints that are no URL',
      kv.replace('value: https://a:2379', 'value: a:2379'),
      /env\[\d+\]\.value: found "a:2379"/,
    ],
    [
      'endpoints that differ',
      kv.replace('value: https://a:2379', 'value: https://b:2379'),
      /write the same endpoints in all places/,
    ],
    ['a Secret without a key', kv.replace(/ {2}tls\.key: .*\n/, ''), /has no key tls\.key/],
    [
      'a certificate that is no PEM file',
      kv.replace('<BASE64_OF_CA_CERTIFICATE>', 'YWJj'),
      /data\["ca\.crt"\]: is no PEM file/,
    ],
    [
      'an unreadable certificate',
      kv.replace('<BASE64_OF_CA_CERTIFICATE>', Buffer.from('-----BEGIN CERTIFICATE-----\nx').toString('base64')),
      /data\["ca\.crt"\]: is no certificate that can be read/,
    ],
    [
      'an image of another release',
      orch.replace('netplug-node:v3.27.0', 'netplug-node:v3.26.1'),
      /image: found .*v3\.26\.1.*this is release v3\.27\.0/,
    ],
    [
      'another selector',
      orch.replace('app.kubernetes.io/name: netplug-node\n  updateStrategy', 'app: x\n  updateStrategy'),
      /Kubernetes refuses another selector/,
    ],
    [
      'a missing variable',
      orch.replace(/ +- name: NETPLUG_ORCHCONFIG\n +value: in-cluster\n/, ''),
      /env\[NETPLUG_ORCHCONFIG\] is missing/,
    ],
    [
      'a missing object',
      orch.replace(/---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n {2}name: netplug-agent\n[^]*?(?=---)/, ''),
      /ServiceAccount netplug-system\/netplug-agent of release v3\.27\.0 is missing/,
    ],
    [
      'a conflist that is broken',
      orch.replace('"type": "netplug",', '"type": "netplug"'),
      /data\.conflist: is no JSON object/,
    ],
    [
      'a wrong value in the conflist',
      orch.replace('"log_level": "INFO"', '"log_level": "LOUD"'),
      /data\.conflist\.plugins\[0\]\.log_level/,
    ],
    ['objects that are in the file twice', `${orch}---\n${orch.split('---\n').at(-1)!}`, /is in the file twice/],
    ['a document that is no object', `${orch}---\n- 1\n`, /is no object with kind/],
    ['broken YAML', `${orch}---\na: [\n`, /is not valid YAML/],
    [
      'pools that overlap',
      `${orch}---\n${orch
        .split('---\n')
        .find((each) => each.includes('\nkind: IPPool\n'))!
        .replace('default-ipv4', 'b')
        .replace('192.168.0.0/16', '192.168.4.0/24')}`,
      /spec\.cidr: overlaps the pool "default-ipv4"/,
    ],
    ['a pool that is invalid', orch.replace('192.168.0.0/16', '192.168.0.0/33'), /spec\.cidr: found/],
  ])('reports %s', async (_, text, says) => {
    expect([orch, kv]).not.toContain(text);
    const { status, lines } = await lint(text);
    expect(status).toBe(1);
    expect(lines.join('\n')).toMatch(says);
  });
});
