import { evaluateEnd, type EndVerdict } from '../evaluate.ts';
import type { PolicyView } from '../policy-view.ts';

/**
 * Returns what one end says of a connection of which nothing is known. It `asks` only where no other rule allows what the rule about
 * requests leaves.
 */
export function judgeEnd(view: PolicyView, question: Parameters<typeof evaluateEnd>[1]): EndVerdict {
  const judged = evaluateEnd(view, question);
  if (judged.asks === undefined) return judged;
  const packet = { ...question.packet, content: { kind: 'stream' } } as const;
  const without = evaluateEnd(view, { ...question, packet });
  return without.verdict === 'allow' ? without : judged;
}

/** How much of some traffic is allowed. */
export const EXTENT = { nothing: 0, requests: 1, all: 2 } as const;
export type Extent = (typeof EXTENT)[keyof typeof EXTENT];

export function extentOfEnd({ verdict, asks }: Pick<EndVerdict, 'verdict' | 'asks'>): Extent {
  if (verdict === 'deny') return EXTENT.nothing;
  return asks === undefined ? EXTENT.all : EXTENT.requests;
}
