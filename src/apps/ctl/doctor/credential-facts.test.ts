import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeTlsFolder } from '../../../../test/support/tls.ts';
import type { Context } from '../ports.ts';
import { gatherCredentials } from './credential-facts.ts';
import type { Sources } from './sources.ts';
import type { Datastore } from '../../../config/connection.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');
const gather = async (datastore: Datastore): ReturnType<typeof gatherCredentials> => {
  // Only the dependencies that gatherCredentials uses.
  const context = { env: {}, ports: { clock: { now: () => NOW }, machine: { serviceAccountDir: '/nowhere' } } };
  const sources = {
    context: context as unknown as Context,
    connection: async () => Promise.resolve({ datastore, from: '' }),
    confFiles: async () => Promise.resolve([]),
  };
  return gatherCredentials(sources as unknown as Sources);
};
const kv = (keyFile: string, certFile: string, caCertFile: string): Datastore => ({
  type: 'kvv3',
  connection: { endpoints: { from: 'list', urls: [] }, keyFile, certFile, caCertFile },
});

describe('credentials that the doctor gathers', () => {
  it('come from the files of etcd, with whether key and certificate match', async () => {
    using folder = makeTlsFolder();
    const ca = folder.authority('ca');
    const [own, other] = [ca.issue('one'), ca.issue('two')];
    const { credentials, unusable } = await gather(kv(own.keyFile, own.certFile, ca.certFile));
    expect(unusable).toEqual([]);
    expect(credentials).toMatchObject([
      { what: `client certificate "${own.certFile}" (CN=one)`, isKeyOfAnother: false },
      { what: `root certificate in "${ca.certFile}" (CN=ca)` },
    ]);
    expect(credentials[0]!.validToMs! - credentials[0]!.validFromMs!).toBe(2 * 86_400_000);
    const mixed = await gather(kv(other.keyFile, own.certFile, ca.certFile));
    expect(mixed.credentials[0]).toMatchObject({ isKeyOfAnother: true });
  });

  it('come from a kubeconfig and the files it names', async () => {
    using folder = makeTlsFolder();
    const ca = folder.authority('ca');
    const own = ca.issue('admin');
    const base64 = (file: string): string => readFileSync(file).toString('base64');
    const token = `h.${Buffer.from(JSON.stringify({ exp: 1_800_000_000 })).toString('base64url')}.s`;
    folder.write('token', `${token}\n`);
    const kubeconfig = (user: object): string =>
      folder.write(
        'kubeconfig',
        JSON.stringify({
          'current-context': 'c',
          contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
          clusters: [
            { name: 'k', cluster: { server: 'https://a', 'certificate-authority-data': base64(ca.certFile) } },
          ],
          users: [{ name: 'u', user }],
        }),
      );
    const of = async (user: object): ReturnType<typeof gather> =>
      gather({ type: 'orch', orch: { orchconfig: kubeconfig(user), apiRoot: undefined, nodeName: undefined } });
    const { credentials } = await of({
      'client-certificate-data': base64(own.certFile),
      'client-key': own.keyFile,
      token,
    });
    expect(credentials).toMatchObject([
      { what: expect.stringContaining('client certificate of'), isKeyOfAnother: false },
      { what: expect.stringContaining('root certificate of') },
      { what: expect.stringContaining('token of'), validToMs: 1_800_000_000_000 },
    ]);
    const agent = { sub: 'system:serviceaccount:netplug-system:netplug-agent', 'kubernetes.io': {} };
    const unbound = `h.${Buffer.from(JSON.stringify(agent)).toString('base64url')}.s`;
    expect((await of({ token: unbound })).credentials[1]).toMatchObject({ isUnbound: true });
    expect((await of({ tokenFile: 'token' })).credentials[1]).toMatchObject({ renewedBy: 'kubelet' });
  });

  it('name the file of each entry when KUBECONFIG merges several', async () => {
    using folder = makeTlsFolder();
    const ca = folder.authority('ca');
    const clusters = folder.write(
      'clusters',
      JSON.stringify({
        clusters: [{ name: 'k', cluster: { server: 'https://a', 'certificate-authority': 'ca.crt' } }],
        contexts: [{ name: 'prod', context: { cluster: 'k', user: 'u' } }],
      }),
    );
    const token = `h.${Buffer.from(JSON.stringify({ exp: 1_800_000_000 })).toString('base64url')}.s`;
    const users = folder.write('users', JSON.stringify({ users: [{ name: 'u', user: { token } }] }));
    const paths = ['/nowhere/config', clusters, users];
    const kubeconfig = { paths, namedBy: 'KUBECONFIG', ifMissing: 'skip', context: 'prod' } as const;
    const access = { orchconfig: undefined, apiRoot: undefined, nodeName: undefined, kubeconfig };
    const { credentials, unusable } = await gather({ type: 'orch', orch: access });
    expect(unusable).toEqual([]);
    expect(credentials).toMatchObject([
      { what: `root certificate of "${clusters}" (CN=ca)` },
      { what: `token of "${users}"`, validToMs: 1_800_000_000_000 },
    ]);
    expect(ca.certFile).toBe(join(folder.dir, 'ca.crt'));
  });

  it('include the files that are unreadable', async () => {
    const { unusable } = await gather(kv('/nowhere/key', '/nowhere/cert', '/nowhere/ca'));
    expect(unusable).toEqual([expect.stringContaining('/nowhere/key'), expect.stringContaining('/nowhere/ca')]);
  });
});
