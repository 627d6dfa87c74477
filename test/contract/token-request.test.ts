// Tokens of service accounts on a real API server: their lifetime, the node they are bound to, and when they are refused.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { isBoundToPod, tokenExpiry } from '../../src/kube/jwt.ts';
import { requestToken, type TokenOf } from '../../src/kube/token-request.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';

const AGENT = 'system:serviceaccount:netplug-system:netplug-agent';
const OF: TokenOf = { namespace: 'netplug-system', name: 'netplug-cni', node: 'node-a', lifetimeSeconds: 600 };
const signal = new AbortController().signal;

let server: ApiServer;
let api: OrchApi;
beforeAll(async () => {
  const flags = { 'service-account-max-token-expiration': '1h' };
  server = await startApiServer({ flags, users: [{ name: AGENT, groups: ['system:authenticated'] }] });
  await server.apply(await readFile(join(import.meta.dirname, '../../manifests/rbac.yaml'), 'utf8'));
  await server.apply([{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-a' } }]);
  api = new OrchApi({ from: 'file', path: await server.kubeconfigFor(server.userToken(AGENT)) });
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

async function accepts(token: string): Promise<boolean> {
  await using asPlugin = new OrchApi({ from: 'file', path: await server.kubeconfigFor(token) });
  return await asPlugin.acceptsCredential(signal);
}

describe('a token of the account of the plugin', () => {
  it.each([
    [600, 600],
    [86_400, 3600],
  ])('requested for %d s lasts for the %d s that the API server grants', async (lifetimeSeconds, granted) => {
    const { token, expiresAtMs } = await requestToken(api, { ...OF, lifetimeSeconds }, signal);
    expect(Math.abs(expiresAtMs - Date.now() - granted * 1000)).toBeLessThan(60_000);
    expect(tokenExpiry(token)).toBe(expiresAtMs);
    expect(isBoundToPod(token)).toBe(false);
    expect(await accepts(token)).toBe(true);
  });

  it('is refused once its Node is gone', async () => {
    await server.apply([{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-b' } }]);
    const { token } = await requestToken(api, { ...OF, node: 'node-b' }, signal);
    expect(await accepts(token)).toBe(true);
    await server.kubectl('delete', 'node', 'node-b');
    await expect.poll(async () => accepts(token), { timeout: 60_000 }).toBe(false);
  });

  it('is not issued for another account, nor for a node or an account that does not exist', async () => {
    const other = requestToken(api, { ...OF, name: 'netplug-agent' }, signal);
    await expect(other).rejects.toMatchObject({ code: 'store/refused' });
    await expect(requestToken(api, { ...OF, node: 'no-such-node' }, signal)).rejects.toMatchObject({
      code: 'orch/not-found',
      message: expect.stringContaining('no-such-node'),
    });
    await server.kubectl('delete', 'serviceaccount', 'netplug-cni', '--namespace=netplug-system');
    await expect(requestToken(api, OF, signal)).rejects.toMatchObject({
      code: 'orch/not-found',
      message: expect.stringMatching(/^Cannot get a token of service account "netplug-system\/netplug-cni": /),
    });
  });

  it('is refused with the time and the remedy when it was expired on arrival', async () => {
    const claims = Buffer.from(JSON.stringify({ iat: 1_700_000_000, exp: 1_700_003_600 })).toString('base64url');
    const folder = server.dir;
    await writeFile(join(folder, 'cni-token'), `e30.${claims}.c2ln`);
    const config = JSON.parse(await readFile(await server.kubeconfigFor('none'), 'utf8'));
    config.users = [{ name: 'user', user: { tokenFile: join(folder, 'cni-token') } }];
    await writeFile(join(folder, 'plugin.kubeconfig'), JSON.stringify(config));
    await using asPlugin = new OrchApi({ from: 'file', path: join(folder, 'plugin.kubeconfig') });
    await expect(asPlugin.get({ group: '', version: 'v1', plural: 'nodes' }, 'node-a', signal)).rejects.toMatchObject({
      code: 'store/refused',
      message: expect.stringContaining('(expired 2023-11-14T23:13:20.000Z)'),
      hint: expect.stringMatching(/^Start netplug-agent .* not done so since 2023-11-14T22:13:20.000Z/),
    });
  });
});
