// Many processes that claim addresses of one block naively, all at the same moment.
import { updateTo } from '../../test/support/block-edits.ts';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { emptyBlock } from '../../src/model/ip-block.ts';
import { formatCidr, parseCidr } from '../../src/net/cidr.ts';
import type { TestNode } from '../../test/support/node.ts';
import { nodeName } from '../../test/support/fixtures.ts';
import { ETCD, inside, openStoreOn } from './inside.ts';

export interface NaiveClaimers extends AsyncDisposable {
  /** Every process claims one address; the block is empty before. */
  claim(): Promise<{ readonly ms: number; readonly attempts: number }>;
}

const OWNER = nodeName('naive');
const PROGRAM = join(import.meta.dirname, 'naive-claimer.ts');
const DEADLINE_MS = 60_000;

/** Starts them; they are connected and wait, so that neither is measured. The block is the only one of its pool. */
export async function startNaiveClaimers(
  node: TestNode,
  { processes, pool, block }: { processes: number; pool: string; block: string },
): Promise<NaiveClaimers> {
  await using scope = new AsyncDisposableStack();
  await node.seedPool(pool, block, { blockSize: Number(block.split('/')[1]) });
  await writeEmptyBlock(node, { pool, block });
  const children = await inside(node, async () =>
    Array.from({ length: processes }, () => scope.adopt(fork(PROGRAM, [block, OWNER]), end)),
  );
  await Promise.all(children.map(async (child) => nextMessage(child)));
  const kept = scope.move();
  return {
    claim: async () => {
      await writeEmptyBlock(node, { pool, block });
      const startMs = performance.now();
      const answers = children.map(async (child) => nextMessage(child));
      for (const child of children) child.send('claim');
      const messages = await Promise.all(answers);
      const attempts = messages.reduce((sum, message) => sum + message.attempts, 0);
      return { ms: performance.now() - startMs, attempts };
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

async function writeEmptyBlock(node: TestNode, { pool, block }: { pool: string; block: string }): Promise<void> {
  await inside(node, async () => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    await using store = openStoreOn(ETCD);
    const cidr = parseCidr(block);
    const [before] = await store.getBlocks([cidr], signal);
    const after = emptyBlock(cidr, OWNER);
    const { pools } = await store.readNodeView(OWNER, undefined, signal);
    const found = pools.find(({ value }) => value.metadata.name === pool);
    if (found === undefined) throw new Error(`no pool ${pool}`);
    const change =
      before === undefined ? ({ kind: 'create-block', block: after, pool: found } as const) : updateTo(before, after);
    if ((await store.commit([change], signal)) !== 'committed') throw new Error(`${formatCidr(cidr)} is not alone`);
  });
}

async function nextMessage(child: ChildProcess): Promise<{ readonly attempts: number }> {
  const ended = once(child, 'exit').then(([status]) => {
    throw new Error(`a naive claimer ended with ${String(status)}`);
  });
  const [message] = await Promise.race([once(child, 'message'), ended]);
  return message as { attempts: number };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.disconnect();
  await gone;
}
