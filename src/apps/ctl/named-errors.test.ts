import { describe, expect, it } from 'vitest';
import { poolOf } from '../../../test/support/fixtures.ts';
import { NetplugError } from '../../base/errors.ts';
import type { ConnectionOrigin } from '../../config/connection.ts';
import { namingErrors, withNamedErrors } from './named-errors.ts';
import type { CtlPorts } from './ports.ts';

const ORIGIN: ConnectionOrigin = { from: 'KUBECONFIG "/k"', why: 'set in the environment', ifRefused: undefined };
const OF_NODE: ConnectionOrigin = { ...ORIGIN, ifRefused: 'Use those of an administrator' };

async function errorOf(cause: unknown, origin: ConnectionOrigin = ORIGIN): Promise<unknown> {
  return namingErrors(origin, async () => Promise.reject(cause)).catch((error: unknown) => error);
}

describe('an error about a datastore', () => {
  it('begins with the source of the connection, once', async () => {
    const named = await errorOf(new NetplugError('store/unavailable', 'Cannot use it', { hint: 'Wait' }));
    expect(named).toMatchObject({
      code: 'store/unavailable',
      message: 'Using KUBECONFIG "/k" (set in the environment): Cannot use it',
      hint: 'Wait',
    });
    expect(await errorOf(named)).toBe(named);
  });

  it('is left as it is when it concerns one object', async () => {
    const conflict = new NetplugError('store/conflict', 'Cannot write it');
    expect(await errorOf(conflict)).toBe(conflict);
    const bug = new Error('no code');
    expect(await errorOf(bug)).toBe(bug);
  });

  it('advises other credentials where those of the node are refused, or cannot be read by this user', async () => {
    const refused = new NetplugError('store/refused', 'Cannot write', { hint: 'Look at the rights' });
    expect(await errorOf(refused, OF_NODE)).toMatchObject({ hint: 'Use those of an administrator' });
    expect(await errorOf(refused)).toMatchObject({ hint: 'Look at the rights' });
    const cause = Object.assign(new Error('permission denied'), { code: 'EACCES' });
    const unreadable = new NetplugError('store/config-invalid', 'Cannot read', { hint: 'Correct it', cause });
    expect(await errorOf(unreadable, OF_NODE)).toMatchObject({ hint: 'Use those of an administrator' });
    const absent = new NetplugError('store/config-invalid', 'Cannot read', { hint: 'Correct it' });
    expect(await errorOf(absent, OF_NODE)).toMatchObject({ hint: 'Correct it' });
  });
});

describe('the dependencies of a command', () => {
  it('name the source in the errors of opening, of methods, of streams and of ports within a port', async () => {
    const failure = new NetplugError('store/unavailable', 'Cannot use it');
    const store = {
      ping: async (): Promise<void> => Promise.reject(failure),
      fieldOwnership: { apply: async (): Promise<void> => Promise.reject(failure) },
      async *follow(): AsyncGenerator {
        yield await Promise.resolve(1);
        throw failure;
      },
    };
    // Only the methods that this test calls.
    const ports = { plugin: {}, openStore: () => store, openApi: () => fail(failure) } as unknown as CtlPorts;
    const named = withNamedErrors(ports);
    const orch = { orchconfig: undefined, apiRoot: undefined, nodeName: undefined, origin: ORIGIN };
    const signal = new AbortController().signal;
    const opened = named.openStore({ type: 'orch', orch });
    await expect(opened.ping(signal)).rejects.toThrowError('Using KUBECONFIG "/k" (set in the environment): Cannot');
    const wish = {
      resource: poolOf('blue', '10.0.0.0/24'),
      manager: 'netplugctl',
      force: false,
      mode: 'apply',
    } as const;
    await expect(opened.fieldOwnership?.apply(wish, signal)).rejects.toThrowError('Using KUBECONFIG');
    const seen: unknown[] = [];
    await expect(async () => {
      for await (const each of opened.follow([], { signal })) seen.push(each);
    }).rejects.toThrowError('Using KUBECONFIG');
    expect(seen).toEqual([1]);
    expect(() => named.openApi(orch)).toThrowError('Using KUBECONFIG');
  });
});

function fail(error: Error): never {
  throw error;
}
