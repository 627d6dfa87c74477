import { afterEach, beforeEach, expect, it } from 'vitest';
import { TestClock } from '../../../test/support/enforcement-host.ts';
import { nodeName } from '../../../test/support/fixtures.ts';
import { Channel } from '../../base/channel.ts';
import type { ApiAnswer } from '../../kube/answers.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { OrchApi } from '../../kube/orch-api.ts';
import type { SharedEvent } from '../../kube/shared-watches.ts';
import { emptyBlock } from '../../model/ip-block.ts';
import { parseCidr } from '../../net/cidr.ts';
import { blockObject } from './block-objects.ts';
import { metadataBlockSource } from './node-blocks.ts';
import type { SourceEvent } from './source.ts';
import { WrittenBlocks } from './written-blocks.ts';

const NODE = nodeName('node-a');

/** The block at a version; the UID of the object stays the same. */
const blockAt = (resourceVersion: string): ApiObject =>
  blockObject(emptyBlock(parseCidr('10.65.0.0/26'), NODE), { uid: 'u', resourceVersion }) as unknown as ApiObject;

/** An API whose watch the test feeds, and which counts how often a block is read. */
class FedApi extends OrchApi {
  readonly feed = new Channel<SharedEvent>();
  reads = 0;
  version = '1';

  override async *sharedWatch(): AsyncGenerator<SharedEvent> {
    yield* this.feed;
  }

  override async list(): Promise<readonly ApiObject[]> {
    return [blockAt(this.version)];
  }

  override async get(): Promise<ApiAnswer<ApiObject>> {
    this.reads += 1;
    return { outcome: 'ok', value: blockAt(this.version) };
  }
}

let api: FedApi;
let clock: TestClock;
let written: WrittenBlocks;
let events: AsyncIterator<SourceEvent>;
beforeEach(async () => {
  api = new FedApi({ from: 'in-cluster' });
  clock = new TestClock();
  written = new WrittenBlocks(clock);
  const source = metadataBlockSource(NODE, 0, { watched: 'all-metadata', written });
  const stream = source.follow(api, { isFresh: false }, new AbortController().signal);
  events = stream[Symbol.asyncIterator]();
  api.feed.push({ kind: 'all', objects: [blockAt('10')], version: '10' });
  api.version = '10';
  await versions();
});
afterEach(async () => {
  api.feed.close();
  await api[Symbol.asyncDispose]();
});

/** This process writes the block. */
const write = async (object: ApiObject): Promise<unknown> =>
  written.remember(object.metadata.name, Promise.resolve({ object }));

async function versions(): Promise<readonly string[]> {
  const { value } = (await events.next()) as { value: SourceEvent };
  return value.records.map(({ version }) => version);
}

/** Returns what the source yields when the watch shows that change, and how often it has read a block for it. */
async function shows(before: string, after: string): Promise<readonly [readonly string[], number]> {
  const reads = api.reads;
  api.feed.push({ kind: 'changes', changes: [{ before: blockAt(before), after: blockAt(after) }], version: after });
  return [await versions(), api.reads - reads];
}

it('a block is not read back that this process wrote', async () => {
  await write(blockAt('11'));
  expect(await shows('10', '11')).toEqual([['u/11'], 0]);
});

it('a block is not read back that the watch shows before its write was answered', async () => {
  const answer = Promise.withResolvers<{ readonly object: ApiObject }>();
  const answered = written.remember('10-65-0-0-26', answer.promise);
  const shown = shows('10', '11');
  answer.resolve({ object: blockAt('11') });
  expect([await shown, await answered]).toEqual([[['u/11'], 0], { object: blockAt('11') }]);
});

it('a block is read whose write fails, or is not answered', async () => {
  const failure = Promise.reject(new Error('the connection broke'));
  await expect(written.remember('10-65-0-0-26', failure)).rejects.toThrow('the connection broke');
  api.version = '11';
  expect(await shows('10', '11')).toEqual([['u/11'], 1]);
  const never = Promise.withResolvers<'conflict'>();
  void written.remember('10-65-0-0-26', never.promise);
  api.version = '12';
  expect(await shows('11', '12')).toEqual([['u/12'], 1]);
});

it('a version is read that another write has followed, and that one is passed over', async () => {
  await write(blockAt('11'));
  await write(blockAt('12'));
  api.version = '12';
  expect(await shows('10', '11')).toEqual([['u/12'], 1]);
  expect(await shows('11', '12')).toEqual([[], 0]);
});

it('a block is read that was written in another way since', async () => {
  await write(blockAt('11'));
  written.forget('10-65-0-0-26');
  api.version = '12';
  expect(await shows('10', '11')).toEqual([['u/12'], 1]);
});

it('a block that another writer changed is read', async () => {
  await write(blockAt('11'));
  api.version = '12';
  expect(await shows('10', '12')).toEqual([['u/12'], 1]);
});

it('a write is not remembered beyond the version that was shown', async () => {
  await write(blockAt('11'));
  await shows('10', '11');
  api.version = '12';
  expect(await shows('11', '12')).toEqual([['u/12'], 1]);
});

it('a block is read whose version goes back or comes long after the write, as after a restored backup', async () => {
  await write(blockAt('11'));
  api.version = '5';
  expect(await shows('10', '5')).toEqual([['u/5'], 1]);
  api.version = '6';
  expect(await shows('5', '6')).toEqual([['u/6'], 1]);
  await write(blockAt('7'));
  await clock.pass(2001);
  api.version = '7';
  expect(await shows('6', '7')).toEqual([['u/7'], 1]);
});
