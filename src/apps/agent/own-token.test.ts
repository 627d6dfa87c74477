import { expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { silentLog } from '../../base/log.ts';
import { OwnToken } from './own-token.ts';

const AGENT = 'system:serviceaccount:netplug-system:netplug-agent';
const tokenOf = (sub: string, more: object): string =>
  `h.${Buffer.from(JSON.stringify({ sub, 'kubernetes.io': { namespace: 'netplug-system', ...more } })).toString('base64url')}.s`;
const BOUND = tokenOf(AGENT, { node: { name: 'node-a', uid: 'u' }, pod: { name: 'p', uid: 'v' } });

/** Runs one round for each token, and returns what was logged and the warning after each round. */
async function rounds(tokens: readonly (string | undefined)[]): Promise<{ logged: object[]; warnings: unknown[] }> {
  const stop = new AbortController();
  const [logged, warnings, rest]: [object[], unknown[], (string | undefined)[]] = [[], [], [...tokens]];
  const log: Log = { ...silentLog, warning: (_, facts = {}) => void logged.push(facts) };
  const sleep = async (): Promise<void> => {
    warnings.push(own.warning);
    if (rest.length === 0) stop.abort();
    return Promise.resolve();
  };
  const readToken = async (): Promise<string | undefined> => Promise.resolve(rest.shift());
  const own = new OwnToken({ log, clock: { ...virtualClock(), sleep }, readToken }, 'node-a');
  await own.run(stop.signal);
  return { logged, warnings };
}

it('says nothing about a token that is bound to the node, of another account, or that is none', async () => {
  const other = tokenOf('system:serviceaccount:shop:netplug-agent', {});
  expect(await rounds([BOUND, other, 'opaque', undefined])).toEqual({
    logged: [],
    warnings: [undefined, undefined, undefined, undefined],
  });
});

it('names a token that is bound to no node or to another one, once, with code and remedy, until it is replaced', async () => {
  const [unbound, others] = [tokenOf(AGENT, {}), tokenOf(AGENT, { node: { name: 'node-b' } })];
  const { logged, warnings } = await rounds([unbound, unbound, others, BOUND]);
  expect(logged).toEqual([
    expect.objectContaining({
      code: 'store/unbound-token',
      message: expect.stringContaining('is bound to no node') as string,
      hint: expect.stringContaining('--bound-object-kind=Node') as string,
    }),
    expect.objectContaining({
      message: expect.stringContaining('to node "node-b", and this node is "node-a"') as string,
    }),
  ]);
  expect(warnings[1]).toContain('--bound-object-kind=Node');
  expect(warnings[3]).toBeUndefined();
});
