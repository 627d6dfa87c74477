import { Readable } from 'node:stream';
import { queryObjects } from 'node:v8';
import { expect, it } from 'vitest';
import { ReplayedApi } from '../../test/support/replayed-api.ts';
import type { ApiObject } from './objects.ts';
import { OrchApi } from './orch-api.ts';
import { collectionPath, PODS, SERVICE_ACCOUNTS } from './paths.ts';

const OBJECTS = Array.from({ length: 300 }, (_, index) => ({
  metadata: { name: `a${String(index)}`, namespace: 'dev', labels: { filler: 'x'.repeat(1000) } },
}));

/** Returns an API server that ignores the size of pages from its watch cache, and the queries that it gets. */
function server(): { readonly api: OrchApi; readonly queries: readonly string[] } {
  const queries: string[] = [];
  const open = async (_: unknown, { path }: { readonly path: string }) => {
    const query = new URL(path, 'http://a').searchParams;
    const [limit, at] = [Number(query.get('limit')), Number(query.get('continue') ?? 0)];
    const isCached = query.get('resourceVersion') === '0';
    queries.push(`${isCached ? 'cached ' : ''}${String(limit)} from ${String(at)}`);
    const items = isCached ? OBJECTS : OBJECTS.slice(at, at + limit);
    const isLast = isCached || at + limit >= OBJECTS.length;
    const metadata = { resourceVersion: '7', ...(isLast ? {} : { continue: String(at + limit) }) };
    const bytes = Buffer.from(JSON.stringify({ metadata, items }));
    const chunks = Array.from({ length: 10 }, (_, index) =>
      bytes.subarray((index * bytes.length) / 10, ((index + 1) * bytes.length) / 10),
    );
    return Promise.resolve({ status: 200, headers: {}, body: Readable.from(chunks) });
  };
  const transport = { open, close: (): void => undefined };
  const options = { transport, pageBytes: 50_000 };
  return { api: new OrchApi({ from: 'api-root', url: 'http://127.0.0.1:1' }, options), queries };
}

it('asks for fewer objects at once when users have made them so large that a page is too long', async () => {
  const { api, queries } = server();
  const found = await api.list(SERVICE_ACCOUNTS, {}, new AbortController().signal);
  expect(found.map(({ metadata }) => metadata.name)).toEqual(OBJECTS.map(({ metadata }) => metadata.name));
  expect(queries.slice(0, 3)).toEqual(['500 from 0', '62 from 0', '7 from 0']);
});

it('begins a watch with pages from the store when the watch cache answers with all at once', async () => {
  const { api, queries } = server();
  const ending = new AbortController();
  const options = { only: 'names', isCached: true } as const;
  for await (const event of api.watch(SERVICE_ACCOUNTS, options, ending.signal)) {
    expect(event.kind === 'all' ? event.objects.length : 0).toBe(300);
    ending.abort();
  }
  expect(queries.slice(0, 3)).toEqual(['cached 500 from 0', '500 from 0', '62 from 0']);
});

it('keeps none of the objects of a list that its reader has dropped, while the watch goes on', async () => {
  class Listed {
    readonly metadata: ApiObject['metadata'];
    constructor({ metadata }: ApiObject) {
      this.metadata = metadata;
    }
  }
  const list = collectionPath(PODS);
  const { transport } = new ReplayedApi({
    [list]: { count: 300, at: (number) => ({ metadata: { name: `a${String(number)}` } }) },
  });
  const api = new OrchApi({ from: 'api-root', url: 'http://127.0.0.1:1' }, { transport });
  const kept: [string, number][] = [];
  const trim = (object: ApiObject): ApiObject => ({ metadata: object.metadata, rest: new Listed(object) });
  for await (const { kind } of api.watch(PODS, { trim }, new AbortController().signal)) {
    kept.push([kind, queryObjects(Listed, { format: 'count' })]);
    if (kept.length === 2) break;
  }
  expect(kept).toEqual([
    ['all', 300],
    ['bookmark', 0],
  ]);
});
