import { describe, expect, it } from 'vitest';
import type { FilterSet } from '../policy-filter.ts';
import { encodeInTurn } from './encode-in-turn.ts';
import { additions } from './element-messages.ts';
import { decodeElements } from './listed-elements.ts';
import type { Message } from './netlink.ts';

const TEXTS = Array.from({ length: 20_000 }, (_, at) =>
  at % 2 === 0 ? `10.${String(at >> 8)}.${String(at & 255)}.16/28` : `10.${String(at >> 8)}.${String(at & 255)}.0/29`,
);
const NETS: FilterSet = { kind: 'nets', family: 4, elements: new Set(TEXTS) };

/** Counts how often other work may run while this work is done. */
async function turnsDuring<T>(work: Promise<T>): Promise<{ readonly result: T; readonly turns: number }> {
  const ended = new AbortController();
  let turns = 0;
  const count = (): void => {
    if (ended.signal.aborted) return;
    turns += 1;
    setImmediate(count);
  };
  setImmediate(count);
  const result = await work;
  ended.abort();
  return { result, turns };
}

describe('a large set', () => {
  const messages = additions('t', 's', { set: NETS, texts: TEXTS });

  it('is encoded while other work runs, in messages that fit into what the kernel takes', async () => {
    const { result, turns } = await turnsDuring(encodeInTurn(messages, 1));
    expect(turns).toBeGreaterThan(5);
    expect(messages.map(({ body }) => body.length).every((bytes) => bytes < 65_536)).toBe(true);
    expect(result.length).toBe(messages.reduce((sum, { body }) => sum + 16 + body.length, 0));
  });

  it('is encoded only when it is sent', () => {
    const texts = [...TEXTS.slice(0, 10), 'no network'];
    const [message] = additions('t', 's', { set: NETS, texts });
    expect(() => message?.body).toThrow('Cannot read "no network"');
  });

  it('is decoded while other work runs, to the elements in any order that the kernel lists them in', async () => {
    for (const listed of [messages, messages.toReversed()]) {
      const { result, turns } = await turnsDuring(decodeElements(NETS, listed.map(bodyOf)));
      expect(turns).toBeGreaterThan(5);
      expect([...result.keys()].toSorted()).toEqual(TEXTS.toSorted());
    }
  });
});

it.each<FilterSet>([
  { kind: 'nets', family: 6, elements: new Set(['::/0']) },
  { kind: 'nets', family: 6, elements: new Set(['fd00::/8', 'fe00::/7', '2001:db8::1/128']) },
  { kind: 'nets', family: 4, elements: new Set(['0.0.0.0/1', '128.0.0.0/2', '255.255.255.255/32']) },
  { kind: 'addresses', family: 6, elements: new Set(['2001:db8::1', '::']) },
  { kind: 'services', family: 4, elements: new Set(['10.0.0.1 6 80']) },
  { kind: 'interfaces', elements: new Map([['npl1', 'ingress-npl1']]) },
])('elements of the kind $kind and family $family are decoded to what was encoded', async (set) => {
  const bodies = additions('t', 's', { set, texts: [...set.elements.keys()] }).map(bodyOf);
  expect([...(await decodeElements(set, bodies)).keys()].toSorted()).toEqual([...set.elements.keys()].toSorted());
});

function bodyOf({ body }: Message): Buffer {
  return body;
}
