import { describe, expect, it } from 'vitest';
import { type KubeconfigFile, listContexts, parseKubeconfig } from './parse-kubeconfig.ts';

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
  parseKubeconfig([{ content: JSON.stringify({ ...config, ...change }), path: '/etc/orch.conf' }]);

describe('a configuration file of the orchestrator', () => {
  it('gives cluster and user of its current context [orch-access]', async () => {
    await expect(parse({})).resolves.toMatchObject({
      cluster: { server: 'https://10.0.0.1:6443' },
      user: { token: 'secret' },
      clusterOrigin: { path: '/etc/orch.conf', field: 'clusters[1].cluster' },
      userOrigin: { path: '/etc/orch.conf', field: 'users[0].user' },
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
    const { cluster, user } = await parseKubeconfig([{ content: text, path: '/etc/orch.conf' }]);
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
    await expect(parseKubeconfig([{ content: text, path: '/x' }])).rejects.toMatchObject({
      code: 'store/config-invalid',
    });
  });
});

describe('several kubeconfig files', () => {
  const file = (path: string, content: object | string): KubeconfigFile => ({
    path,
    content: typeof content === 'string' ? content : JSON.stringify(content),
  });
  const context = (name: string, cluster: string, user = ''): object => ({ name, context: { cluster, user } });
  const cluster = (name: string, server: string, more = {}): object => ({ name, cluster: { server, ...more } });
  const user = (name: string, token: string): object => ({ name, user: { token } });
  const first = file('/a/config', {
    clusters: [cluster('shared', 'https://a')],
    contexts: [context('one', 'shared', 'plugin')],
  });
  const second = file('/b/config', {
    'current-context': 'two',
    clusters: [cluster('shared', 'https://b', { 'tls-server-name': 'b' }), cluster('own', 'https://own')],
    users: [user('plugin', 'of b')],
    contexts: [context('two', 'own', 'plugin'), context('one', 'own')],
  });
  const third = file('/c/config', { 'current-context': 'one', users: [user('plugin', 'of c')] });

  it('are merged so that the first file with an entry of a name wins, without mixing entries', async () => {
    const merged = await parseKubeconfig([first, second, third], 'one');
    expect(merged).toEqual({
      context: 'one',
      cluster: { server: 'https://a' },
      user: { token: 'of b' },
      clusterOrigin: { path: '/a/config', field: 'clusters[0].cluster' },
      userOrigin: { path: '/b/config', field: 'users[0].user' },
    });
  });

  it('have the current context of the first file that sets one', async () => {
    expect(await parseKubeconfig([first, second, third])).toMatchObject({ cluster: { server: 'https://own' } });
    expect(await parseKubeconfig([third, first, second])).toMatchObject({
      cluster: { server: 'https://a' },
      user: { token: 'of c' },
    });
  });

  it('may include an empty file', async () => {
    expect(await parseKubeconfig([file('/e', ' \n'), second])).toMatchObject({ cluster: { server: 'https://own' } });
  });

  it('are refused when no file has the chosen context, naming the contexts there are', async () => {
    await expect(parseKubeconfig([first, second], 'three')).rejects.toMatchObject({
      code: 'store/config-invalid',
      message:
        'Cannot use the API of the orchestrator: files "/a/config", "/b/config": there is no context "three" (contexts: "one", "two")',
      hint: expect.stringContaining('--context') as string,
    });
  });

  it('are refused when no file sets the current context and none is chosen', async () => {
    await expect(parseKubeconfig([first, file('/e', '')])).rejects.toMatchObject({
      message: expect.stringContaining('current-context: missing (contexts: "one")') as string,
    });
  });

  it('name the file that is malformed', async () => {
    await expect(parseKubeconfig([first, file('/broken', '[1, 2')])).rejects.toMatchObject({
      message: expect.stringContaining('file "/broken"') as string,
    });
  });

  it('list the contexts of all files once', async () => {
    expect(await listContexts([first, second])).toEqual(['one', 'two']);
  });
});
