import { describe, expect, it } from 'vitest';
import { inSimulatedTime } from '../../test/support/simulated-time.ts';
import { type Clock, systemClock, virtualClock } from '../base/clock.ts';
import { TokenIdentity, tokenReviewer } from './token-identity.ts';

const never = new AbortController().signal;
const audience = 'netplug-typha';
const AGENT = 'system:serviceaccount:netplug-system:netplug-agent';
const good = {
  authenticated: true,
  audiences: [audience],
  user: { username: AGENT, extra: { 'authentication.kubernetes.io/node-name': ['n1'] } },
};

function tokenUntil(ms: number, id = ''): string {
  return `${id}.${Buffer.from(JSON.stringify({ exp: ms / 1000 })).toString('base64url')}.`;
}

function identityOf(status: unknown, clock: Clock = virtualClock(1_000_000)): TokenIdentity {
  return new TokenIdentity({ clock, review: async () => Promise.resolve(status), audience, users: [AGENT] });
}

describe('the identity of an agent', () => {
  it('is the node that its token is bound to', async () => {
    expect(await identityOf(good).nodeOf('t', never)).toBe('n1');
  });

  it.each([
    ['is not accepted', { authenticated: false }],
    ['is for another audience', { ...good, audiences: ['https://kubernetes.default.svc'] }],
    ['was reviewed by a server that knows no audiences', { ...good, audiences: undefined }],
    ['is of another account', { ...good, user: { ...good.user, username: 'system:serviceaccount:shop:web' } }],
    ['is bound to no node', { ...good, user: { username: AGENT } }],
    [
      'is bound to an empty node',
      { ...good, user: { username: AGENT, extra: { 'authentication.kubernetes.io/node-name': [''] } } },
    ],
    ['has a review that cannot be read', 'yes'],
  ])('is refused when the token %s', async (_, status) => {
    await expect(identityOf(status).nodeOf('t', never)).rejects.toMatchObject({ code: 'stream/identity-refused' });
  });

  it('is asked for once until the token ends, and again after that', async () => {
    const clock = virtualClock(1_000_000);
    const identity = identityOf(good, clock);
    const token = tokenUntil(1_000_000 + 60_000);
    for (let time = 0; time < 3; time += 1) await identity.nodeOf(token, never);
    expect(identity.reviews).toBe(1);
    await clock.sleep(60_001, never);
    await identity.nodeOf(token, never);
    expect(identity.reviews).toBe(2);
  });

  it('is not asked for more than 200 times a second', async () => {
    const waits: number[] = [];
    const clock = {
      ...virtualClock(1_000_000),
      sleep: async (ms: number) => {
        waits.push(ms);
        return Promise.resolve();
      },
    };
    const identity = identityOf(good, clock);
    for (let id = 0; id < 300; id += 1) await identity.nodeOf(tokenUntil(2_000_000, String(id)), never);
    expect(waits.at(-1)).toBe(299 * 5);
  });

  it('is asked for at once after any number of clients that did not wait for the answer', async () => {
    await inSimulatedTime(1_000_000, async () => {
      const identity = identityOf(good, systemClock);
      for (let id = 0; id < 1000; id += 1) {
        const gone = new AbortController();
        const asked = identity.nodeOf(String(id), gone.signal).catch(() => undefined);
        gone.abort();
        await asked;
      }
      const beganMs = systemClock.monotonic();
      await identity.nodeOf('t', never);
      expect(systemClock.monotonic() - beganMs).toBeLessThan(20);
    });
  });
});

it('asks the API server about the token for the audience alone', async () => {
  const asked: unknown[] = [];
  const api = {
    review: async (collection: unknown, object: object) => {
      asked.push(collection, object);
      return Promise.resolve(good);
    },
  };
  expect(await tokenReviewer(api, audience)('t', never)).toBe(good);
  expect(asked).toEqual([
    { group: 'authentication.k8s.io', version: 'v1', plural: 'tokenreviews' },
    expect.objectContaining({ kind: 'TokenReview', spec: { token: 't', audiences: [audience] } }),
  ]);
});
