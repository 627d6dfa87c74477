import * as v from 'valibot';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { decodeBlock, encodeBlock } from '../../model/ip-block-codec.ts';

/** A block of the node with its pending writes, and which of its addresses the agent may assign. */
export interface OfferedBlock {
  readonly block: IpBlock;
  /** The pre-allocated ordinals that may be assigned, in order. */
  readonly ready: readonly number[];
  /** Only `ready` may be assigned: the pool has pre-allocated addresses, or the datastore is unavailable. */
  readonly isWarmPoolOnly: boolean;
}

/** Returns the block as the address manager sees it: pre-allocated addresses are free and come first. */
export function offer({ block, ready, isWarmPoolOnly }: OfferedBlock): IpBlock {
  const isReady = new Set(ready);
  return {
    ...block,
    preallocated: new Map([...block.preallocated].filter(([ordinal]) => !isReady.has(ordinal))),
    queue: isWarmPoolOnly ? ready : [...ready, ...block.queue],
  };
}

const ANSWER = v.object({
  blocks: v.array(
    v.object({ block: v.unknown(), ready: v.array(v.pipe(v.number(), v.integer())), isWarmPoolOnly: v.boolean() }),
  ),
});

/** Encodes the blocks as JSON, for a process that plans beside the agent. */
export function encodeOfferedBlocks(blocks: readonly OfferedBlock[]): string {
  return JSON.stringify({
    blocks: blocks.map(({ block, ready, isWarmPoolOnly }) => ({
      block: encodeBlock(block),
      ready,
      isWarmPoolOnly,
    })),
  });
}

/** Decodes the output of `encodeOfferedBlocks`; undefined for anything else. */
export function decodeOfferedBlocks(text: string): readonly OfferedBlock[] | undefined {
  const answer = v.safeParse(ANSWER, tryParseJson(text));
  if (!answer.success) return undefined;
  const blocks = answer.output.blocks.flatMap(({ block: raw, ready, isWarmPoolOnly }) => {
    const read = decodeBlock(raw);
    return 'block' in read ? [{ block: read.block, ready, isWarmPoolOnly }] : [];
  });
  return blocks.length === answer.output.blocks.length ? blocks : undefined;
}
