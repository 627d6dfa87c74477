import { describe, expect, it } from 'vitest';
import { parseKubeconfig } from './parse-kubeconfig.ts';

const config = {
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'here',
  clusters: [
    { name: 'other', cluster: { server: 'https://other' } },
    { name: 'mine', cluster: { server: 'https://10.0.0.1:6443', 'tls-server-name': 'api' } },
  ],
  users: [{ name: 'plugin', user: { token: 'secret' } }],
  contexts: [{ name: 'here', context: { cluster: 'mine', user: 'plugin', namespace: 'x' } }],
};
const parse = async (change: object): Promise<unknown> =>
  parseKubeconfig(JSON.stringify({ ...config, ...change }), '/etc/orch.conf');

describe('a configuration file of the orchestrator', () => {
  it('gives cluster and user of its current context [orch-access]', async () => {
    await expect(parse({})).resolves.toMatchObject({
      cluster: { server: 'https://10.0.0.1:6443' },
      user: { token: 'secret' },
      clusterField: 'clusters[1].cluster',
      userField: 'users[0].user',
    });
  });

  it('may be YAML, with null for what is empty', async () => {
    const text = `
apiVersion: v1
kind: Config
preferences: {}
current-context: here
clusters:
- name: mine
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority:
users: null
contexts:
- name: here
  context: {cluster: mine}
`;
    const { cluster, user } = await parseKubeconfig(text, '/etc/orch.conf');
    expect([cluster.server, user]).toEqual(['https://10.0.0.1:6443', {}]);
  });

  it.each([
    [{ 'current-context': '' }, 'current-context: missing'],
    [{ 'current-context': 'there' }, 'current-context: there is no context "there" (contexts: "here")'],
    [{ clusters: null }, 'contexts[0].context.cluster: there is no cluster "mine" (clusters: none)'],
    [{ users: [] }, 'contexts[0].context.user: there is no user "plugin"'],
    [{ clusters: [{ name: 'mine', cluster: {} }] }, 'clusters[0].cluster.server: missing'],
    [{ users: [{ name: 'plugin', user: { token: 7 } }] }, 'users[0].user.token: allowed is a string'],
    [{ users: [{ name: 'plugin', user: { exec: { command: 'x' } } }] }, 'users[0].user.exec.apiVersion: missing'],
    [{ clusters: 'mine' }, 'clusters: allowed is'],
  ])('names file and field of what is wrong: %j', async (change, reason) => {
    await expect(parse(change)).rejects.toMatchObject({
      code: 'store/config-invalid',
      message: expect.stringContaining(`file "/etc/orch.conf": ${reason}`) as string,
    });
  });

  it.each(['', '[1, 2', 'just words', '\0'])('is refused when it is something else: %j', async (text) => {
    await expect(parseKubeconfig(text, '/x')).rejects.toMatchObject({ code: 'store/config-invalid' });
  });
});
