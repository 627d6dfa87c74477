import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { seededRandom } from '../../base/random.ts';
import { AgentFiles } from '../../install/agent-files.ts';
import type { IssuedToken } from '../../kube/token-request.ts';
import { type ApiServer, CniCredentials } from './cni-credentials.ts';

const START_MS = Date.parse('2026-01-01T00:00:00Z');
const DAY_S = 86_400;

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'netplug-credentials-'))));
afterEach(async () => rm(folder, { recursive: true, force: true }));

const at = (name: string): string => join(folder, name);
const text = async (name: string): Promise<string> => readFile(at(name), 'utf8');

function jwt(issuedS: number, expiryS: number): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({})}.${part({ iat: issuedS, exp: expiryS })}.c2ln`;
}

/** An API server on a virtual clock, and an agent that renews a token of it. */
class World {
  lifetimeS = DAY_S;
  server: ApiServer = { server: 'https://10.0.0.1:6443', caPem: 'PEM', ownToken: 'own' };
  isUp = true;
  /** Tokens issued before are refused. */
  keyRotatedMs = 0;
  readonly requests: number[] = [];
  readonly checks: number[] = [];
  readonly events: (readonly [number, () => Promise<void> | void])[] = [];
  readonly #clock = virtualClock(START_MS);
  readonly #stop = new AbortController();
  readonly credentials: CniCredentials;

  constructor() {
    this.credentials = new CniCredentials(
      {
        log: silentLog,
        random: seededRandom(7),
        clock: {
          ...this.#clock,
          sleep: async (ms, signal) => {
            await this.#clock.sleep(ms, signal);
            while ((this.events[0]?.[0] ?? Infinity) <= this.seconds()) await this.events.shift()?.[1]();
          },
        },
        files: new AgentFiles(folder, () => undefined),
        readServer: async () => Promise.resolve(this.server),
        requestToken: async () => this.#issue(),
        isAccepted: async () => {
          this.checks.push(this.seconds());
          if (!this.isUp) throw new NetplugError('store/unavailable', 'Cannot use the API: it is down');
          return (await this.issuedMs()) >= this.keyRotatedMs;
        },
      },
      { account: 'netplug-system/netplug-cni', kubeconfigPath: at('kubeconfig'), tokenPath: at('token') },
    );
  }

  seconds(): number {
    return (this.#clock.now() - START_MS) / 1000;
  }

  async issuedMs(): Promise<number> {
    const [, claims = ''] = (await text('token')).split('.');
    return (JSON.parse(Buffer.from(claims, 'base64url').toString()) as { iat: number }).iat * 1000;
  }

  on(second: number, act: () => Promise<void> | void): void {
    this.events.push([second, act]);
  }

  async runUntil(second: number): Promise<void> {
    this.on(second, () => this.#stop.abort());
    await this.credentials.run(this.#stop.signal);
  }

  async #issue(): Promise<IssuedToken> {
    this.requests.push(this.seconds());
    if (!this.isUp) throw new NetplugError('store/unavailable', 'Cannot use the API: it is down');
    const nowS = this.#clock.now() / 1000;
    const expiresAtMs = (nowS + this.lifetimeS) * 1000;
    return Promise.resolve({ token: jwt(nowS, nowS + this.lifetimeS), expiresAtMs });
  }
}

describe('the credentials of the plugin', { timeout: 120_000 }, () => {
  it('are written for root alone, with CA, server and token file', async () => {
    const world = new World();
    expect(world.credentials.obstacle).toContain('is being requested');
    await world.runUntil(1);
    expect(world.credentials.obstacle).toBeUndefined();
    expect(JSON.parse(await text('kubeconfig'))).toMatchObject({
      clusters: [{ cluster: { server: 'https://10.0.0.1:6443', 'certificate-authority-data': 'UEVN' } }],
      users: [{ user: { tokenFile: at('token') } }],
    });
    for (const name of ['token', 'kubeconfig']) expect((await stat(at(name))).mode & 0o777).toBe(0o600);
    const { files } = JSON.parse(await text('agent-files.json')) as { files: { kind: string; path: string }[] };
    expect(files.map(({ kind, path }) => [kind, path])).toEqual([
      ['token', at('token')],
      ['kubeconfig', at('kubeconfig')],
    ]);
  });

  it.each([480, 240])('are renewed when a quarter to a half of the granted %d s have passed', async (lifetimeS) => {
    const world = new World();
    world.lifetimeS = lifetimeS;
    await world.runUntil(3 * lifetimeS);
    expect(world.requests.length).toBeGreaterThanOrEqual(6);
    const waits = world.requests.slice(1).map((second, index) => second - (world.requests[index] ?? 0));
    // The files are compared every 5 s.
    for (const wait of waits) {
      expect(wait).toBeGreaterThanOrEqual(lifetimeS / 4);
      expect(wait).toBeLessThanOrEqual(lifetimeS / 2 + 5);
    }
    expect(new Set(waits).size).toBeGreaterThan(1);
    expect(world.credentials.warning).toBeUndefined();
  });

  it('are written again when files are removed or changed, or become readable for others', async () => {
    const world = new World();
    const before: string[] = [];
    world.on(10, async () => {
      before.push(await text('token'), await text('kubeconfig'));
      for (const name of ['token', 'kubeconfig']) await rm(at(name));
    });
    world.on(20, async () => {
      expect([await text('token'), await text('kubeconfig')]).toEqual(before);
      await writeFile(at('token'), 'other');
      await chmod(at('kubeconfig'), 0o644);
    });
    await world.runUntil(30);
    expect([await text('token'), await text('kubeconfig')]).toEqual(before);
    expect((await stat(at('kubeconfig'))).mode & 0o777).toBe(0o600);
    expect(world.requests).toHaveLength(1);
  });

  it('follow the server and its CA', async () => {
    const world = new World();
    world.on(10, () => void (world.server = { ...world.server, server: 'https://10.0.0.2:6443', caPem: 'NEW' }));
    await world.runUntil(20);
    expect(await text('kubeconfig')).toContain('https://10.0.0.2:6443');
    expect(await text('kubeconfig')).toContain(Buffer.from('NEW').toString('base64'));
    expect(world.requests).toHaveLength(1);
  });

  it('are renewed within a minute after the signing key was rotated', async () => {
    const world = new World();
    world.on(600, () => void (world.keyRotatedMs = START_MS + 600_000));
    await world.runUntil(700);
    expect(world.requests).toHaveLength(2);
    expect(world.requests[1]).toBeLessThanOrEqual(665);
    expect(await world.issuedMs()).toBeGreaterThanOrEqual(world.keyRotatedMs);
  });

  it("are checked at once when the agent's own token changes, and not renewed for that alone", async () => {
    const world = new World();
    world.on(30, () => void (world.server = { ...world.server, ownToken: 'next' }));
    await world.runUntil(40);
    expect(world.checks).toEqual([30]);
    expect(world.requests).toHaveLength(1);
  });

  it('are requested again every 5 to 10 s while the API does not issue a token', async () => {
    const world = new World();
    world.isUp = false;
    world.on(60, () => {
      expect(world.credentials.obstacle).toContain('it is down');
      world.isUp = true;
    });
    await world.runUntil(90);
    const failed = world.requests.filter((second) => second < 60);
    expect(failed.length).toBeGreaterThanOrEqual(6);
    expect(failed.length).toBeLessThanOrEqual(12);
    expect(world.credentials.obstacle).toBeUndefined();
  });

  it('warn while the token of an earlier agent is not renewed, and when it has expired', async () => {
    const nowS = START_MS / 1000;
    await writeFile(at('token'), `${jwt(nowS - 1000, nowS + 3000)}\n`);
    const world = new World();
    world.isUp = false;
    const seen: (string | undefined)[] = [];
    world.on(60, () => {
      expect(world.credentials.obstacle).toBeUndefined();
      seen.push(world.credentials.warning);
    });
    await world.runUntil(3100);
    expect(seen[0]).toMatch(/"netplug-system\/netplug-cni" expires in 4\d minutes and is not renewed: .*it is down/);
    expect(world.credentials.warning).toContain('has expired');
    expect(world.credentials.secondsLeft()).toBeLessThan(0);
    expect(world.credentials.obstacle).toContain('it is down');
  });
});
