// BIRD as a program: what it reads, how it is found again, what it refuses.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { Bird } from '../../src/bgp/bird.ts';
import { isDeaf } from '../../src/bgp/read-status.ts';
import { renderBird } from '../../src/bgp/render-bird.ts';
import { birdInputs } from '../support/bird-inputs.ts';
import { newNetns, type TestNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

const signal = new AbortController().signal;
const NOTHING = 'router id 192.0.2.1;\nprotocol device {}\n';
let folder: string;
let netns: TestNetns;
let bird: Bird;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'npl-bird-'));
  netns = await newNetns();
  const program = ['nsenter', `--net=${netns.path}`, 'bird'] as const;
  bird = new Bird({ places: { folder: join(folder, 'bird'), program: [...program] }, clock: systemClock });
});

afterAll(async () => {
  await netns[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

describe('a configuration', () => {
  it('is accepted by BIRD with any contents', async () => {
    const path = join(folder, 'candidate.conf');
    await fc.assert(
      fc.asyncProperty(birdInputs, async (input) => {
        const { text, problems } = renderBird(input);
        writeFileSync(path, text);
        await promisify(execFile)('bird', ['-p', '-c', path]);
        const said = text.match(/^protocol bgp /gm)?.length ?? 0;
        expect(said + problems.length).toBe(input.sessions.length);
        expect(text.match(/^ {2}password /gm)?.length ?? 0).toBe(
          input.sessions.filter(({ password }) => password !== undefined).length - problems.length,
        );
      }),
      { numRuns: 150 },
    );
  });
});

describe('BIRD', () => {
  it('is started, adopted, reloaded, restarted after a kill, and stopped', async () => {
    expect(await bird.status(signal)).toBeUndefined();
    expect(await bird.apply(NOTHING, signal)).toBe('started');
    const heir = new Bird({ places: { folder: join(folder, 'bird'), program: ['/none'] }, clock: systemClock });
    expect(await heir.apply(NOTHING, signal)).toBe('unchanged');
    expect(await heir.apply(`${NOTHING}# more\n`, signal)).toBe('reloaded');
    expect(statSync(join(folder, 'bird', 'bird.conf')).mode & 0o777).toBe(0o600);
    const ended = bird.ended(signal);
    const pid = await pidOf();
    process.kill(pid, 'SIGKILL');
    await ended;
    expect(await bird.apply(NOTHING, signal)).toBe('started');
    await pidOf(pid);
    await bird.stop(signal);
    expect(await bird.status(signal)).toBeUndefined();
    expect(() => statSync(join(folder, 'bird'))).toThrow('ENOENT');
    await bird.stop(signal);
  });

  it('keeps its configuration when it refuses a new one, which is offered again', async () => {
    await bird.apply(NOTHING, signal);
    for (const _ of ['first', 'again']) {
      await expect(bird.apply('nonsense', signal)).rejects.toMatchObject({
        code: 'bgp/bird-failed',
        message: expect.stringMatching(/^Cannot route by BGP: BIRD refuses its configuration: .*bird\.conf\.next:1:/),
      });
    }
    expect(await bird.apply(NOTHING, signal)).toBe('unchanged');
    await bird.stop(signal);
  });

  it('does not start with a configuration it refuses, and reports why', async () => {
    await expect(bird.apply('nonsense', signal)).rejects.toMatchObject({
      code: 'bgp/bird-failed',
      message: expect.stringMatching(/^Cannot route by BGP: starting BIRD failed: .*bird\.conf:1:/),
    });
    expect(await bird.apply(NOTHING, signal)).toBe('started');
    await bird.stop(signal);
  });

  it('does not listen while another program has its port, and begins its sessions when it is told to try again', async () => {
    const config = `router id 192.0.2.1;
protocol device {}
protocol bgp peer_a { description "global"; local 192.0.2.1 as 64512; neighbor 192.0.2.9 as 64513; ipv4 { import none; export none; }; }
`;
    await netns.exec('ip', 'link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'up1');
    await netns.addAddress('192.0.2.1/24', 'up0');
    for (const link of ['up0', 'up1']) await netns.exec('ip', 'link', 'set', link, 'up');
    const other = spawn('nsenter', [`--net=${netns.path}`, 'nc', '-l', '-k', '179'], { stdio: 'ignore' });
    const isTaken = async (): Promise<boolean> => (await netns.exec('ss', '-ltn')).includes(':179');
    try {
      await until(isTaken, 'the other program listens');
      await bird.apply(config, signal);
      await until(async () => (await bird.status(signal))?.some(isDeaf) === true, 'BIRD cannot listen');
      expect(await bird.status(signal)).toMatchObject([{ state: 'Down', info: 'Error: No listening socket' }]);
    } finally {
      other.kill();
    }
    await until(async () => !(await isTaken()), 'the port is free');
    await bird.enableSessions(['peer_a'], signal);
    await until(async () => (await bird.status(signal))?.some(isDeaf) === false, 'BIRD listens');
    await bird.stop(signal);
  });

  it('is named with its package where it is missing', async () => {
    const missing = new Bird({ places: { folder: join(folder, 'none'), program: ['/none/bird'] }, clock: systemClock });
    await expect(missing.apply(NOTHING, signal)).rejects.toMatchObject({
      code: 'bgp/bird-missing',
      hint: 'Install BIRD 2 (on Debian the package bird2)',
    });
  });
});

/** Of the BIRD that runs; it says so a moment after it has gone into the background, where `before` may still stand. */
async function pidOf(before = 0): Promise<number> {
  let pid = 0;
  await until(async () => {
    pid = Number(await readFile(join(folder, 'bird', 'bird.pid'), 'utf8').catch(() => ''));
    return pid !== 0 && pid !== before;
  }, 'BIRD says its process id');
  return pid;
}
