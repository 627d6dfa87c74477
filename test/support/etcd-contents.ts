// Every key of an etcd: recorded once, and put back later.
import { until } from './until.ts';

/** In the form that the gateway for JSON takes and gives: base64. */
interface KeyValue {
  readonly key: string;
  readonly value?: string;
  readonly mod_revision: string;
}

export interface EtcdContents {
  /** Returns the keys that are missing, changed or new since the record. */
  changes(): Promise<readonly string[]>;
  /** Puts every key back as it was. Returns the keys that were missing, changed or new. */
  restore(): Promise<readonly string[]>;
}

/** etcd takes 128 operations in a transaction. */
const MOST_OPERATIONS = 100;
const EVERY_KEY = { key: 'AA==', range_end: 'AA==' };
const SETTLED_MS = 1000;

/** Records the contents once nothing has written to it for a second. Keys that match `ignored` are nobody's concern. */
export async function recordContents(url: string, ignored: RegExp): Promise<EtcdContents> {
  const ask = async <T>(path: string, body: object): Promise<T> => {
    const answer = await fetch(`${url}/v3/kv/${path}`, { method: 'POST', body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`etcd answers ${String(answer.status)}: ${await answer.text()}`);
    return (await answer.json()) as T;
  };
  const read = async (parts: 'keys' | 'all'): Promise<Map<string, KeyValue>> => {
    const { kvs = [] } = await ask<{ kvs?: KeyValue[] }>('range', { ...EVERY_KEY, keys_only: parts === 'keys' });
    return new Map(kvs.filter(({ key }) => !ignored.test(nameOf(key))).map((each) => [each.key, each]));
  };
  const newestOf = (found: ReadonlyMap<string, KeyValue>): string =>
    [...found.values()].map(({ key, mod_revision }) => `${key} ${mod_revision}`).join();

  let [last, lastAt] = ['', Date.now()];
  await until(
    async () => {
      const now = newestOf(await read('keys'));
      if (now !== last) [last, lastAt] = [now, Date.now()];
      return Date.now() - lastAt >= SETTLED_MS;
    },
    'nothing writes to etcd',
    60_000,
    100,
  );
  const recorded = await read('all');
  const changed = async (): Promise<{ lost: KeyValue[]; added: string[] }> => {
    const found = await read('keys');
    return {
      lost: [...recorded.values()].filter(({ key, mod_revision }) => found.get(key)?.mod_revision !== mod_revision),
      added: [...found.keys()].filter((key) => !recorded.has(key)),
    };
  };
  const changes = async (): Promise<readonly string[]> => {
    const { lost, added } = await changed();
    return [...lost.map(({ key }) => key), ...added].map(nameOf).sort();
  };
  return {
    changes,
    restore: async () => {
      const { lost, added } = await changed();
      // Definitions after their objects, as the keys of custom objects are sorted: the API server finds none without its definition.
      for (let at = 0; at < added.length; at += MOST_OPERATIONS) {
        const part = added.slice(at, at + MOST_OPERATIONS);
        await ask('txn', { success: part.map((key) => ({ request_delete_range: { key } })) });
      }
      for (const each of lost) {
        const { header } = await ask<{ header: { revision: string } }>('put', {
          key: each.key,
          value: each.value ?? '',
        });
        recorded.set(each.key, { ...each, mod_revision: header.revision });
      }
      return [...lost.map(({ key }) => key), ...added].map(nameOf).sort();
    },
  };
}

function nameOf(key: string): string {
  return Buffer.from(key, 'base64').toString();
}
