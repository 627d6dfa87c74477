import { expect, it } from 'vitest';
import { nodeName } from '../../../test/support/fixtures.ts';
import { followedPool, FollowSource } from '../../../test/support/follow-source.ts';
import { inSimulatedTime } from '../../../test/support/simulated-time.ts';
import { serveInProcess } from '../../../test/support/typha-in-process.ts';
import type { FollowedRecord, FollowStore } from '../../datastore/follow.ts';
import { blockObject } from '../../datastore/orch/block-objects.ts';
import { sourcesOf } from '../../datastore/orch/query-sources.ts';
import { followFrame, readServerFrame, type ServerMessage } from '../../datastore/typha/follow-frames.ts';
import { OWN_BLOCKS } from '../../datastore/typha/topics.ts';
import { readObject } from '../../kube/objects.ts';
import { emptyBlock } from '../../model/ip-block.ts';
import { parseCidr } from '../../net/cidr.ts';
import { StreamFrameReader } from '../../stream/stream-frames.ts';

const NODE = nodeName('n1');
const POOLS = 'resources/IPPool';
const pass = async (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A client that says when it takes no more, and what it was sent. */
class SlowPeer {
  readonly receivedMs = Infinity;
  isFull = false;
  takesOne = false;
  readonly sent: ServerMessage[] = [];
  readonly #reader = new StreamFrameReader(1_000_000);

  send(bytes: Buffer): void {
    for (const frame of this.#reader.push(bytes)) this.sent.push(readServerFrame(frame));
    if (this.takesOne) this.isFull = true;
  }

  together(work: () => void): void {
    work();
  }

  accept(): void {
    // It is a client already.
  }

  end(): void {
    this.isFull = true;
  }
}

/** The metadata of a block of the node, at a version. */
function blockAt(version: number): FollowedRecord {
  const { metadata } = blockObject(emptyBlock(parseCidr('10.65.0.0/26'), NODE), {
    uid: 'u',
    resourceVersion: String(version),
  });
  const [source] = sourcesOf({ kind: 'block-routes' }, 0, { withStored: true });
  const [record] = source?.watched?.recordsIn(readObject({ metadata })!) ?? [];
  return record!;
}

it('tells a client how current its own blocks are only when it was sent all of them', async () => {
  await inSimulatedTime(Date.UTC(2026, 0), async () => {
    const [blocks, pools] = [new FollowSource(), new FollowSource()];
    blocks.put(blockAt(1));
    const source: FollowStore = {
      follow: (queries, options) => (queries[0]?.kind === 'resources' ? pools : blocks).follow(queries, options),
    };
    const server = serveInProcess('s0', source, { topics: [POOLS, OWN_BLOCKS], versionOf: Number });
    await pass(10);
    const peer = new SlowPeer();
    const client = { node: NODE, release: '1.0.0', about: undefined, format: 1 };
    const listener = server.service.admit(client, peer);
    for (const topic of [POOLS, OWN_BLOCKS]) {
      const begun = followFrame({ kind: 'begin', topic, changed: undefined });
      for (const frame of new StreamFrameReader(1000).push(begun)) listener.onFrame(frame);
    }
    const told = (): unknown[] =>
      peer.sent.flatMap((message) => (message.kind === 'beat' ? [message.topics[OWN_BLOCKS]?.through] : []));
    // The first beat comes after three to six seconds, and then one every three.
    await pass(6500);
    expect(told()).toEqual([1]);
    peer.isFull = true;
    // It takes one frame at first, which is of another topic.
    pools.put(followedPool('a'));
    blocks.put(blockAt(2));
    await pass(2000);
    peer.isFull = false;
    peer.takesOne = true;
    await pass(2000);
    expect(told()).toEqual([1, undefined]);
    peer.isFull = false;
    peer.takesOne = false;
    await pass(3000);
    expect(told()).toEqual([1, undefined, 2]);
    expect(peer.sent.at(-1)?.kind).toBe('beat');
    await server[Symbol.asyncDispose]();
  });
});
