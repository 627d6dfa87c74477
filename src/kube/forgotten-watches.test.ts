import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { virtualClock } from '../base/clock.ts';
import { OrchApi } from './orch-api.ts';
import { SERVICE_ACCOUNTS } from './paths.ts';

/** Returns how long an API with so many objects, which has forgotten every version, waits for the next list at most, in milliseconds. */
async function pauseBeforeList(objects: number): Promise<number> {
  const clock = virtualClock();
  const ending = new AbortController();
  const listedMs: number[] = [];
  const items = Array.from({ length: objects }, (_, index) => ({ metadata: { name: `a${String(index)}` } }));
  const open = async (_: unknown, { path }: { readonly path: string }) => {
    const isWatch = new URL(path, 'http://a').searchParams.has('watch');
    if (!isWatch) listedMs.push(clock.monotonic());
    const body = isWatch ? '{}' : JSON.stringify({ metadata: { resourceVersion: '7' }, items });
    return Promise.resolve({ status: isWatch ? 410 : 200, headers: {}, body: Readable.from([Buffer.from(body)]) });
  };
  const transport = { open, close: (): void => undefined };
  const random = { int: (below: number): number => below - 1, id: (): string => 'id' };
  await using api = new OrchApi({ from: 'api-root', url: 'http://127.0.0.1:1' }, { transport, clock, random });
  for await (const { kind } of api.watch(SERVICE_ACCOUNTS, {}, ending.signal))
    if (kind === 'all' && listedMs.length === 2) ending.abort();
  const [first = 0, second = 0] = listedMs;
  return second - first;
}

it('the nodes of a cluster whose watches were forgotten list again in seconds, and in more of them the more there is', async () => {
  expect(await pauseBeforeList(0)).toBe(3099);
  expect(await pauseBeforeList(2000)).toBe(10_099);
});
