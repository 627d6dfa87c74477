import * as v from 'valibot';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { decodeBlock, encodeBlock } from '../../model/ip-block-codec.ts';

/** A block of the node with everything that is decided, and what its agent makes of it. */
export interface OfferedBlock {
  readonly block: IpBlock;
  /** The stock that may be handed out, in the order in which it is. */
  readonly ready: readonly number[];
  /** While a pool has stock, or the datastore is away, nothing else of the own blocks is free. */
  readonly isStockOnly: boolean;
}

/** The block as the address manager shall see it: the stock is free and comes first. */
export function offer({ block, ready, isStockOnly }: OfferedBlock): IpBlock {
  const isReady = new Set(ready);
  return {
    ...block,
    stock: new Map([...block.stock].filter(([ordinal]) => !isReady.has(ordinal))),
    queue: isStockOnly ? ready : [...ready, ...block.queue],
  };
}

const ANSWER = v.object({
  blocks: v.array(
    v.object({ block: v.unknown(), ready: v.array(v.pipe(v.number(), v.integer())), isStockOnly: v.boolean() }),
  ),
});

/** As JSON, for whoever plans beside the agent. */
export function encodeOfferedBlocks(blocks: readonly OfferedBlock[]): string {
  return JSON.stringify({ blocks: blocks.map(({ block, ...more }) => ({ block: encodeBlock(block), ...more })) });
}

/** What `encodeOfferedBlocks` wrote; undefined for anything else. */
export function decodeOfferedBlocks(text: string): readonly OfferedBlock[] | undefined {
  const answer = v.safeParse(ANSWER, tryParseJson(text));
  if (!answer.success) return undefined;
  const blocks = answer.output.blocks.flatMap(({ block: raw, ...more }) => {
    const read = decodeBlock(raw);
    return 'block' in read ? [{ block: read.block, ...more }] : [];
  });
  return blocks.length === answer.output.blocks.length ? blocks : undefined;
}
