// The program that runs BIRD in a pod of its own, with a real BIRD: how it starts it, and what becomes of one when the other ends.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { ignoreMissing } from '../../src/base/missing-file.ts';
import { Bird } from '../../src/bgp/bird.ts';
import { BUILT } from '../support/built.ts';
import { newNetns, type TestNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

const PROGRAM = join(BUILT, 'netplug-bird');
const NSENTER = '/usr/bin/nsenter';
const CONFIG = 'router id 192.0.2.1;\nprotocol device {}\n';
const LINE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (?:INFO {3}|ERROR  ) BIRD /m;
const signal = new AbortController().signal;

let netns: TestNetns;
beforeAll(async () => {
  netns = await newNetns();
});
afterAll(async () => netns[Symbol.asyncDispose]());

/** A running netplug-bird. */
interface Starter {
  readonly pid: number;
  log(): string;
  /** Closes the pipe of its log. */
  closeLog(): void;
  /** Sends it the signal, if given, and waits until it has exited. Returns its exit status; null after SIGKILL. */
  end(by?: 'SIGTERM' | 'SIGKILL'): Promise<number | null>;
}

/** A folder of run files, with the agent's port to the BIRD in it. */
class Place implements AsyncDisposable {
  readonly run = mkdtempSync(join(tmpdir(), 'npl-starter-'));
  readonly folder = join(this.run, 'bird');
  readonly agent = new Bird({ places: { folder: this.folder, program: 'external' }, clock: systemClock });
  readonly #starters: Starter[] = [];

  /** Starts netplug-bird in the network of the test. */
  start(env: Readonly<Record<string, string>> = {}): Starter {
    const own = { PATH: process.env['PATH'], NETPLUG_RUN_DIR: this.run, ...env };
    const child = spawn(NSENTER, [`--net=${netns.path}`, PROGRAM], { env: own, stdio: ['ignore', 'ignore', 'pipe'] });
    const exit = once(child, 'exit') as Promise<[number | null]>;
    let log = '';
    child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
    const starter: Starter = {
      pid: child.pid ?? 0,
      log: () => log,
      closeLog: () => child.stderr.destroy(),
      end: async (by) => {
        if (by !== undefined) child.kill(by);
        return (await exit)[0];
      },
    };
    this.#starters.push(starter);
    return starter;
  }

  write(name: string, text: string): void {
    mkdirSync(this.folder, { recursive: true });
    writeFileSync(join(this.folder, name), text);
  }

  /** Waits until a BIRD answers, another one than `before`. Returns its process id and arguments. */
  async bird(before = 0): Promise<{ readonly pid: number; readonly args: readonly string[] }> {
    let pid = 0;
    await until(
      async () => {
        pid = Number(this.#read('bird.pid'));
        return pid > 0 && pid !== before && (await this.agent.status(signal)) !== undefined;
      },
      () => `BIRD answers; netplug-bird says:\n${this.#starters.map((starter) => starter.log()).join('\n')}`,
    );
    return {
      pid,
      args: readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8')
        .split('\0')
        .slice(0, -1),
    };
  }

  #read(name: string): string {
    try {
      return readFileSync(join(this.folder, name), 'utf8');
    } catch (cause) {
      return ignoreMissing(cause) ?? '';
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const starter of this.#starters) await starter.end('SIGTERM');
    const left = Number(this.#read('bird.pid'));
    if (left > 0 && isRunning(left)) process.kill(left, 'SIGKILL');
    rmSync(this.run, { recursive: true });
  }
}

function isRunning(pid: number): boolean {
  return (
    existsSync(`/proc/${String(pid)}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${String(pid)}/status`, 'utf8'))
  );
}

describe('netplug-bird', () => {
  it('waits for the configuration in less than a megabyte', async () => {
    await using place = new Place();
    const starter = place.start();
    const waiting = `INFO    waiting for the configuration of BIRD folder=${place.folder}\n`;
    await until(() => starter.log().endsWith(waiting), 'netplug-bird waits');
    const memory = readFileSync(`/proc/${String(starter.pid)}/smaps_rollup`, 'utf8');
    expect(Number(/^Pss: +(\d+) kB$/m.exec(memory)?.[1])).toBeLessThan(1000);
    await expect(place.agent.apply(CONFIG, signal)).rejects.toMatchObject({ code: 'bgp/bird-failed' });
    await place.bird();
    expect(starter.log()).toMatch(LINE);
  });

  it('starts BIRD as an agent does: afresh, after a kill and after a graceful exit', async () => {
    await using place = new Place();
    place.write('bird.conf', CONFIG);
    const afresh = await place.agent.prepareStart();
    place.start();
    const first = await place.bird();
    expect(first.args).toEqual(['bird', '-f', ...afresh]);
    const counts = [await place.agent.linksSinceStart(7), await place.agent.linksSinceStart(9)];
    expect(counts).toEqual([0, 2]);

    process.kill(first.pid, 'SIGKILL');
    const second = await place.bird(first.pid);
    expect(await place.agent.linksSinceStart(9)).toBe(0);
    expect(second.args).toEqual([...first.args, '-R']);
    expect(second.args).toEqual(['bird', '-f', ...(await place.agent.prepareStart())]);

    await place.agent.exitGracefully(signal);
    expect((await place.bird(second.pid)).args).toEqual(second.args);
    expect(existsSync(join(place.folder, 'bird.graceful'))).toBe(false);
  });

  it('kills BIRD on SIGTERM, and the next one starts it in graceful restart', async () => {
    await using place = new Place();
    place.write('bird.conf', CONFIG);
    const starter = place.start();
    const { pid } = await place.bird();
    expect(await starter.end('SIGTERM')).toBe(0);
    expect(isRunning(pid)).toBe(false);
    place.start();
    expect((await place.bird(pid)).args).toContain('-R');
  });

  it('goes on when its log is closed', async () => {
    await using place = new Place();
    const starter = place.start();
    await until(() => starter.log() !== '', 'netplug-bird waits');
    starter.closeLog();
    place.write('bird.conf', CONFIG);
    const { pid } = await place.bird();
    process.kill(pid, 'SIGKILL');
    expect((await place.bird(pid)).args).toContain('-R');
  });

  it('leaves a BIRD alone that another one has started, until it ends', async () => {
    await using place = new Place();
    place.write('bird.conf', CONFIG);
    const killed = place.start();
    const { pid } = await place.bird();
    expect(await killed.end('SIGKILL')).toBeNull();
    const next = place.start();
    const connections = async (): Promise<string> => netns.exec('ss', '-xHp');
    await until(async () => (await connections()).includes(`pid=${String(next.pid)},`), 'it watches the BIRD');
    expect(isRunning(pid)).toBe(true);
    expect(next.log()).not.toContain('BIRD started');
    process.kill(pid, 'SIGKILL');
    expect((await place.bird(pid)).args).toContain('-R');
  });

  it('waits again when BIRD is shut down for good, whose configuration goes first', async () => {
    await using place = new Place();
    place.write('bird.conf', CONFIG);
    const starter = place.start();
    const { pid } = await place.bird();
    const isLeft = place.agent.ended(signal).then(() => existsSync(join(place.folder, 'bird.conf')));
    await place.agent.stop(signal);
    expect(await isLeft).toBe(false);
    await until(
      () => starter.log().includes('BIRD stopped reason="it was shut down by its control socket"'),
      'it says so',
    );
    place.write('bird.conf', CONFIG);
    expect((await place.bird(pid)).args).not.toContain('-R');
  });

  it('retries a configuration that BIRD refuses, and starts over garbage in the other files', async () => {
    await using place = new Place();
    for (const name of ['conf', 'pid', 'ctl', 'graceful', 'first-link']) place.write(`bird.${name}`, 'garbage');
    const starter = place.start();
    const failures = (): number =>
      starter.log().split('ERROR   BIRD failed reason="BIRD ended with status 1"\n').length - 1;
    await until(
      () => failures() > 1,
      () => `it tries again; it says:\n${starter.log()}`,
    );
    place.write('bird.conf', CONFIG);
    expect((await place.bird()).args).toContain('-R');
  });

  it('names what it misses, and shows no bytes of a path that steer a terminal', async () => {
    await using place = new Place();
    place.write('bird.conf', CONFIG);
    const starter = place.start({ PATH: '/nowhere' });
    const missing = String.raw`BIRD failed reason="there is no program \"bird\": install BIRD 2 (on Debian the package bird2)"`;
    await until(
      () => starter.log().includes(missing),
      () => `it names BIRD; it says:\n${starter.log()}`,
    );
    const steering = place.start({ NETPLUG_RUN_DIR: '/nowhere/\u001B[2J é' });
    await until(
      () => steering.log().endsWith(' folder="/nowhere/?[2J ??/bird"\n'),
      () => steering.log(),
    );
    const long = place.start({ NETPLUG_RUN_DIR: `/${'1'.repeat(107)}` });
    expect(await long.end()).toBe(1);
    await until(() => long.log() === 'the path of NETPLUG_RUN_DIR is too long\n', 'it says why');
  });
});
