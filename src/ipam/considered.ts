import type { Pool, PoolSelection } from './choose-pools.ts';

/** Bytes of JSON for the pools that are named; the count of the remaining pools takes less than 150. */
const NAMED_BYTES = 300;
const NAME_LENGTH = 48;

/**
 * Lists the pools that were considered, for the slot of an address: the chosen pool, the next pools by name, and a count
 * of the remaining ones by verdict. At most 512 bytes of JSON for any number of pools, because a block is one record.
 */
export function consideredFor({ verdicts }: Pick<PoolSelection, 'verdicts'>, chosen: Pool): readonly string[] {
  const ordered = [
    ...verdicts.filter(({ pool }) => pool.name === chosen.name),
    ...verdicts.filter(({ pool }) => pool.name !== chosen.name),
  ];
  const named: string[] = [];
  let bytes = 0;
  for (const { pool, verdict } of ordered) {
    const text = `${shortened(pool.name)}: ${verdict}`;
    bytes += new TextEncoder().encode(JSON.stringify(text)).length;
    if (bytes > NAMED_BYTES) break;
    named.push(text);
  }
  const more = ordered.slice(named.length);
  if (more.length === 0) return named;
  const counts = [...Map.groupBy(more, ({ verdict }) => verdict)].map(
    ([verdict, those]) => `${String(those.length)} ${verdict}`,
  );
  return [...named, `${String(more.length)} more: ${counts.join(', ')}`];
}

function shortened(name: string): string {
  return name.length <= NAME_LENGTH ? name : `${name.slice(0, NAME_LENGTH - 1)}…`;
}
