import { afterEach, expect, it } from 'vitest';
import { TestClock } from '../../../../test/support/enforcement-host.ts';
import { silentLog } from '../../../base/log.ts';
import { NetplugError } from '../../../base/errors.ts';
import type { TableChange, TableEvents } from '../../../dataplane/table-events.ts';
import { TableFollower } from './follow-tables.ts';

const TABLES = ['netplug-policy', 'netplug-nat'];

const scenes: Scene[] = [];
afterEach(() => {
  for (const { over } of scenes.splice(0)) over.abort();
});

/** A follower whose comparisons take as long as the test says. */
class Scene {
  readonly clock = new TestClock();
  readonly compared: (readonly string[])[] = [];
  readonly over = new AbortController();
  costMs = 0;
  isRepaired = true;
  ofOthers = 0;
  notify: (change: TableChange) => void = () => undefined;
  readonly follower: TableFollower;

  constructor(watch?: TableEvents['watch']) {
    const listen: TableEvents['watch'] = (_tables, onChange) => {
      this.notify = onChange;
      return { [Symbol.dispose]: () => undefined };
    };
    const compare = async (tables: readonly string[]): Promise<boolean> => {
      this.compared.push(tables);
      if (this.costMs > 0) await this.clock.sleep(this.costMs, this.over.signal);
      return this.isRepaired;
    };
    const events = { watch: watch ?? listen };
    const onOthers = (): void => void (this.ofOthers += 1);
    const ports = { clock: this.clock, log: silentLog, events, compare, onOthers, ownProgram: 'MainThread' };
    this.follower = new TableFollower(ports, TABLES);
    void this.follower.run(this.over.signal).catch(() => undefined);
    scenes.push(this);
  }

  async change(tables: TableChange['tables'], program?: string): Promise<void> {
    this.notify({ tables, program });
    await this.clock.pass(0);
  }

  async changeTimes(times: number, program: string | undefined): Promise<void> {
    for (let round = 0; round < times; round += 1) {
      await this.change(program === undefined ? 'unknown' : ['netplug-nat'], program);
      await this.clock.pass(100);
    }
  }
}

it('compares at once what has changed, and every table when the kernel has dropped messages', async () => {
  const scene = new Scene();
  await scene.change(['netplug-nat']);
  expect(scene.compared).toEqual([['netplug-nat']]);
  await scene.clock.pass(100);
  await scene.change('unknown');
  expect(scene.compared[1]).toEqual(TABLES);
});

it('passes on that tables of others have changed, and compares nothing for that', async () => {
  const scene = new Scene();
  scene.notify({ tables: [], program: 'iptables', hasChangedOthers: true });
  await scene.clock.pass(0);
  expect([scene.ofOthers, scene.compared]).toEqual([1, []]);
  await scene.change('unknown');
  expect([scene.ofOthers, scene.compared.length]).toEqual([2, 1]);
});

it('compares again only after four times as long as a comparison has taken, whatever changes meanwhile', async () => {
  const scene = new Scene();
  scene.costMs = 1000;
  await scene.change(['netplug-nat']);
  for (let round = 0; round < 64; round += 1) await scene.change(TABLES);
  await scene.clock.pass(1000);
  await scene.clock.pass(3999);
  expect(scene.compared).toHaveLength(1);
  await scene.clock.pass(1);
  expect(scene.compared.slice(1)).toEqual([TABLES]);
});

it('names a program that changes tables again and again, until it has stopped for a minute', async () => {
  const scene = new Scene();
  await scene.changeTimes(5, 'fw\u001b[2J');
  expect(scene.follower.problems()).toEqual([]);
  await scene.changeTimes(1, 'fw\u001b[2J');
  expect(scene.follower.problems()).toEqual([
    expect.objectContaining({
      code: 'network/tables-changed',
      text: expect.stringContaining('"fw\\u001b[2J" changed'),
    }),
  ]);
  await scene.clock.pass(60_000);
  expect(scene.follower.problems()).toEqual([]);
});

it('blames no program for what the processes of netplug change, or where nothing had to be repaired', async () => {
  const scene = new Scene();
  await scene.changeTimes(20, 'MainThread');
  scene.isRepaired = false;
  await scene.changeTimes(20, 'nft');
  // Reports that the kernel has lost.
  await scene.changeTimes(20, undefined);
  expect(scene.compared).toHaveLength(60);
  expect(scene.follower.problems()).toEqual([]);
});

it('says that changes are noticed late where the kernel cannot report them', () => {
  const { follower } = new Scene(() => {
    throw new NetplugError('kernel/failed', 'Cannot watch the nftables tables: the kernel says EPERM');
  });
  expect(follower.problems()).toEqual([
    expect.objectContaining({ severity: 'warning', text: expect.stringContaining('every ten seconds: Cannot watch') }),
  ]);
});
